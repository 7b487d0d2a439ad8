/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Corale's transport over UCX where links have slots in a GPU's memory, over the adapter of test/fake_verbs, which test/fake_verbs/fake_verbs.sh preloads:
 * what can be opened, and what is said of what is missing. Each case is a process of its own.
 */
#include "test/helpers/unit.h"
#include "base/log.h"
#include "gpu_ranks.h"
#include "net/ucx/ucx_comm.h"

static const char adapter[] = "fake0:1";

static const struct ucx_worker *worker_of(const struct transport *t)
{
	return ((const struct ucx_comm *)t)->worker;
}

/* ---- Cases ---- */

/* Contexts by rail, kind of slots and devices; those of one kind are shared. */
static void side_by_side(void)
{
	struct transport *host, *gpu, *same, *other_rail, *other_devices;
	struct fake_gpu_memory memory[2];
	struct link_slab *slab = NULL;
	char why[LINK_WHY_BYTES] = "";
	EXPECT(!gpu_open_alone(0, 0, NULL, &host));
	EXPECT(!gpu_open_alone(0, 1, NULL, &gpu));
	EXPECT(!gpu_open_alone(0, 1, adapter, &same));
	EXPECT(!gpu_open_alone(1, 1, adapter, &other_rail));
	EXPECT(!gpu_open_alone(0, 1, "fake0:1,fake0:1", &other_devices));
	EXPECT(worker_of(gpu) == worker_of(same));
	EXPECT(worker_of(host) != worker_of(gpu) && worker_of(gpu) != worker_of(other_rail));
	EXPECT(worker_of(gpu) != worker_of(other_devices));
	EXPECT(host->rdma && gpu->rdma && other_rail->rdma);
	EXPECT(gpu_map(host, &memory[0], &slab, why) == CORALE_ENOTSUP && !slab);
	EXPECT(strstr(why, "slots in host memory") != NULL);
	EXPECT(!gpu_map(gpu, &memory[1], &slab, why) && slab);
	gpu->ops->links->unmap(slab);
	transport_close(other_devices);
	transport_close(other_rail);
	transport_close(same);
	transport_close(gpu);
	transport_close(host);
}

/* Without UCX_TLS RDMA transports alone are opened. */
static void only_rdma(void)
{
	struct transport *t;
	unsetenv("UCX_TLS");
	EXPECT(!gpu_open_alone(0, 1, NULL, &t));
	EXPECT(t->rdma && t->rails == 1);
	EXPECT(!strcmp(worker_of(t)->devices, "rc_verbs/fake0:1, ud_verbs/fake0:1"));
	transport_close(t);
}

/* Nothing is left behind: hosts go on over tcp. */
static void no_adapter(void)
{
	struct transport *t;
	setenv("FAKE_VERBS", "device=no", 1);
	unsetenv("UCX_TLS");
	EXPECT(gpu_open_alone(0, 1, NULL, &t) == CORALE_ENOTSUP && !t);
	EXPECT(strstr(log_last_error(), "need an RDMA adapter") != NULL);
	EXPECT(!gpu_open_alone(0, 0, "lo", &t));
	EXPECT(!t->rdma);
	transport_close(t);
}

static void other_transports(void)
{
	struct transport *t;
	setenv("UCX_TLS", "tcp", 1);
	EXPECT(gpu_open_alone(0, 1, "lo", &t) == CORALE_ENOTSUP && !t);
	EXPECT(strstr(log_last_error(), "UCX_TLS=tcp") != NULL);
}

static void expect_no_slab(const char *faults, const char *step, const char *advice)
{
	struct transport *t;
	struct fake_gpu_memory memory;
	struct link_slab *slab = NULL;
	char why[LINK_WHY_BYTES] = "";
	setenv("FAKE_VERBS", faults, 1);
	EXPECT(!gpu_open_alone(0, 1, NULL, &t));
	EXPECT(gpu_map(t, &memory, &slab, why) == CORALE_ENOTSUP && !slab);
	EXPECT(!log_last_error()[0]);
	if (!strstr(why, step) || !strstr(why, advice))
		fprintf(stderr, "why: %s\n", why);
	EXPECT(strstr(why, step) && strstr(why, advice));
	transport_close(t);
}

static void not_registered(void)
{
	expect_no_slab("register_gpu=no", "it cannot be registered: ", "gpuDirectRDMACapable");
}

static void no_peermem(void)
{
	expect_no_slab("peermem=no dmabuf=no", "registered it with no adapter", "nvidia-peermem");
}

static void too_many(void)
{
	char devices[UCX_WORKERS * 3 + 8] = "lo";
	struct transport *t;
	setenv("UCX_TLS", "tcp", 1);
	for (int i = 0; i < UCX_WORKERS; i++, strcat(devices, ",lo")) {
		EXPECT(!gpu_open_alone(0, 0, devices, &t));
		transport_close(t);
	}
	EXPECT(gpu_open_alone(0, 0, devices, &t) == CORALE_ENOTSUP && !t);
	EXPECT(strstr(log_last_error(), "has 32 already") != NULL);
	EXPECT(!gpu_open_alone(0, 0, "lo", &t));
	transport_close(t);
}

#define CASE(name)                                                                                           \
	UNIT_TEST(test_##name)                                                                               \
	{                                                                                                    \
		assert_int_equal(gpu_run(name), 0);                                                          \
	}

CASE(side_by_side)
CASE(only_rdma)
CASE(no_adapter)
CASE(other_transports)
CASE(not_registered)
CASE(no_peermem)
CASE(too_many)
