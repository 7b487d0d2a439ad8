/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links over UCX with slots in a GPU's memory: what is read back when, and what becomes of slots and slab while a read is under way. The test plays UCX
 * and the peer (test/net/fake_ucx.h); rank 0 is the library's.
 */
#include <pthread.h>

#include <unistd.h>

#include "test/helpers/unit.h"
#include "net/ucx/ucx_link.h"
#include "ucx_world.h"

enum { PEER = 1, LINK = 5, DEPTH = 2, BYTES = 8192, HOLD_US = 100000 };

static const uint64_t comm_id = 0x1122334455667788;

static const char adapter[] = "#     component 4  :  ib\n#            md 0  :  component 4  mlx5_0 \n",
		  copier[] = "#     component 3  :  cuda_cpy\n#     component 4  :  ib\n#            md 0  : "
			     " component 3  cuda_cpy \n#            md 1  :  component 4  mlx5_0 \n";

static struct ucx_world world;
static struct ucx_comm *comm;
static struct link_slab *slab;
static struct link_memory memory;
static struct link *to_peer;
static unsigned char *gpu;
static int released;

static void on_release(void *ctx)
{
	released++;
}

static void start(void)
{
	const struct link_params params = { .peer = PEER, .index = LINK, .memory = &memory };
	char why[LINK_WHY_BYTES];
	fake_ucx_reset(1);
	fake_ucx_hold_reads(1);
	fake_ucx_unmapped_early = released = 0;
	ucx_world_open(&world);
	world.worker->gpu_slots = 1;
	fake_ucx_info = adapter;
	comm = ucx_world_comm(&world, comm_id, "am");
	assert_non_null(gpu = calloc(2 * DEPTH, BYTES));
	assert_int_equal(ucx_slab_map(&comm->base, gpu, 2 * DEPTH * BYTES, 1, &slab, why, sizeof(why)), 0);
	memory = (struct link_memory){ .slab = slab,
				       .depth = DEPTH,
				       .bytes = BYTES,
				       .in = gpu,
				       .out = gpu + DEPTH * BYTES,
				       .release = on_release };
	assert_int_equal(ucx_link_ops.open(&comm->base, &params, &to_peer), 0);
}

static void finish(void)
{
	fake_ucx_hold_reads(0);
	ucx_world_settle(&world);
	if (slab)
		ucx_slab_unmap(slab);
	ucx_world_close(&world);
	free(gpu);
	assert_int_equal(fake_ucx_kept(), 0);
}

static void deliver(enum ucx_kind kind, uint64_t number, const void *data, size_t bytes)
{
	const struct ucx_wire wire = { .comm_id = comm_id,
				       .from = PEER,
				       .index = kind == UCX_NOTICE || kind == UCX_GRANT ? LINK : 0,
				       .kind = (uint8_t)kind,
				       .scheme = kind == UCX_NOTICE ? UCX_SCHEME_PUT : 0,
				       .bytes = kind == UCX_NOTICE ? BYTES : bytes,
				       .number = number };
	ucx_lock(world.worker);
	fake_ucx_deliver(world.worker, &wire, sizeof(wire), data, bytes, 0);
	ucx_unlock(world.worker);
}

static void receive_notice(void)
{
	assert_int_equal(link_ready(to_peer), 0);
	deliver(UCX_NOTICE, 0, NULL, 0);
}

UNIT_TEST(arrives_when_read)
{
	start();
	receive_notice();
	assert_int_equal(fake_ucx_reads(), 1);
	assert_int_equal(link_ready(to_peer), 0);
	fake_ucx_hold_reads(0);
	ucx_world_settle(&world);
	assert_int_equal(link_ready(to_peer), 1);
	finish();
}

static void close_communicator(void)
{
	unsigned char *addresses = comm->base.addresses;
	ucx_end_close(comm);
	ucx_comm_free(comm);
	free(addresses);
}

/* The peer is through, and the adapter still reads what it has put: the slots are the user's when that ends. */
UNIT_TEST(closed_while_read)
{
	const struct ucx_sum sum = { LINK, 1 };
	start();
	receive_notice();
	deliver(UCX_BYE, 1, &sum, sizeof(sum));
	close_communicator();
	assert_int_equal(fake_ucx_reads(), 1);
	assert_int_equal(released, 0);
	fake_ucx_hold_reads(0);
	ucx_world_settle(&world);
	assert_int_equal(fake_ucx_reads(), 0);
	assert_int_equal(released, 1);
	finish();
}

static void *end_reads(void *arg)
{
	usleep(HOLD_US);
	ucx_lock(world.worker);
	fake_ucx_hold_reads(0);
	ucx_unlock(world.worker);
	return NULL;
}

UNIT_TEST(unmapped_while_read)
{
	pthread_t thread;
	start();
	receive_notice();
	assert_int_equal(fake_ucx_reads(), 1);
	assert_int_equal(pthread_create(&thread, NULL, end_reads, NULL), 0);
	ucx_slab_unmap(slab);
	slab = NULL;
	assert_int_equal(fake_ucx_unmapped_early, 0);
	assert_int_equal(fake_ucx_reads(), 0);
	pthread_join(thread, NULL);
	finish();
}

/* A read that does not end is given up with the loopback. */
UNIT_TEST(unmapped_while_stuck)
{
	start();
	receive_notice();
	void *loop = world.worker->loop;
	ucx_slab_unmap(slab);
	slab = NULL;
	assert_int_equal(fake_ucx_unmapped_early, 0);
	assert_int_equal(fake_ucx_reads(), 0);
	assert_null(world.worker->loop);
	assert_string_equal(comm->peers[PEER]->endpoint->reason,
			    "the adapter could not read a message in a GPU's memory back");
	free(loop);
	finish();
}

UNIT_TEST(no_read_after_failure)
{
	start();
	assert_int_equal(link_ready(to_peer), 0);
	ucx_end_fail(comm, CORALE_EABORTED);
	deliver(UCX_NOTICE, 0, NULL, 0);
	assert_int_equal(fake_ucx_reads(), 0);
	assert_int_equal(link_ready(to_peer), CORALE_EABORTED);
	finish();
}

/* What cuda_copy alone has registered would be copied through the host. */
UNIT_TEST(refused_without_adapter)
{
	struct link_slab *other = NULL;
	char why[LINK_WHY_BYTES];
	start();
	fake_ucx_info = copier;
	assert_int_equal(ucx_slab_map(&comm->base, gpu, BYTES, 1, &other, why, sizeof(why)), CORALE_ENOTSUP);
	assert_null(other);
	assert_non_null(strstr(why, "registered it with no adapter"));
	finish();
}

static void start_sending(void)
{
	const struct ucx_grant grant = { .address = 4096, .depth = DEPTH, .slot_bytes = BYTES };
	unsigned char payload[sizeof(grant) + 24] = { 0 };
	memcpy(payload, &grant, sizeof(grant));
	start();
	assert_int_equal(link_room(to_peer), 0);
	deliver(UCX_GRANT, 0, payload, sizeof(payload));
	assert_int_equal(link_room(to_peer), 1);
	fake_ucx_send_at_once(0);
}

static void send_one(void)
{
	const unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
	assert_int_equal(link_post(to_peer, header, NULL, BYTES), 0);
}

/* UCX cancels a put that it finds no protocol for. */
UNIT_TEST(no_protocol)
{
	start_sending();
	send_one();
	fake_ucx_cancel_all();
	assert_non_null(strstr(comm->peers[PEER]->endpoint->reason, "no way to put from one GPU's memory"));
	assert_int_equal(comm->peers[PEER]->endpoint->failed, CORALE_ETRANSPORT);
	finish();
}

/* A notice goes with its put on one path that keeps order, else when a flush has ended: then it is the last to be sent. */
UNIT_TEST(notice_behind_put)
{
	static const struct {
		const char *lanes;
		int is_ordered;
	} cases[] = {
		{ "# lane[0]: 0:rc_mlx5/mlx5_0:1.0 md[0] -> md[0]/ib/sysdev[0] rma_bw#0 am am_bw#0 "
		  "wireup{ud_mlx5/mlx5_0:1}\n",
		  1 },
		{ "# lane[0]: 0:rc_mlx5/mlx5_0:1.0 md[0] -> md[0]/ib/sysdev[0] rma_bw#0 am am_bw#0\n"
		  "# lane[1]: 1:ud_mlx5/mlx5_0:1.0 md[0] -> md[0]/ib/sysdev[0] keepalive wireup\n",
		  1 },
		{ "# lane[0]: 0:rc_mlx5/mlx5_0:1.0 md[0] -> md[0]/ib/sysdev[0] rma_bw#0 am am_bw#0\n"
		  "# lane[1]: 0:rc_mlx5/mlx5_0:1.1 md[0] -> md[0]/ib/sysdev[0] rma_bw#1\n",
		  0 },
		{ "# lane[0]: 0:ud_mlx5/mlx5_0:1.0 md[0] -> md[0]/ib/sysdev[0] am\n"
		  "# lane[1]: 1:rc_mlx5/mlx5_0:1.0 md[0] -> md[0]/ib/sysdev[0] rma_bw#0\n",
		  0 },
		{ "# lane[0]: 0:dc_mlx5/mlx5_0:1.0 md[0] -> md[0]/ib/sysdev[0] rma_bw#0 am am_bw#0\n", 0 },
	};
	const char *before = fake_ucx_lanes;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_ucx_lanes = cases[i].lanes;
		start_sending();
		const unsigned sent = fake_ucx_count();
		send_one();
		assert_int_equal(fake_ucx_count() - sent, cases[i].is_ordered);
		ucx_world_settle(&world);
		assert_int_equal(fake_ucx_count() - sent, 1);
		assert_int_equal(fake_ucx_sent(sent)->wire.kind, UCX_NOTICE);
		finish();
	}
	fake_ucx_lanes = before;
}
