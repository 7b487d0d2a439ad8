/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the receiving side of the UCX transport believes of notes and headers: each field wrong by itself, and notes that come before
 * their communicator is open. The test plays UCX and the peers (test/net/fake_ucx.h); rank 0 is the library's.
 */
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "net/ucx/ucx_devices.h"
#include "ucx_world.h"

enum { BIG = 100000, SMALL = 4096, PEER = 1 };

static const uint64_t comm_id = 0x1122334455667788;

static struct ucx_world world;
static char log_path[] = "/tmp/ucx_receive_test.XXXXXX";

/* ---- Helpers ---- */

static void start(void)
{
	fake_ucx_reset(1);
	ucx_world_open(&world);
	ucx_world_comm(&world, comm_id, "am");
}

static void finish(void)
{
	ucx_world_close(&world);
	assert_int_equal(fake_ucx_kept(), 0);
}

static ucs_status_t deliver_as(const struct ucx_wire *wire, size_t bytes, uint64_t attr)
{
	ucx_lock(world.worker);
	ucs_status_t status = fake_ucx_deliver(world.worker, wire, sizeof(*wire), NULL, bytes, attr);
	ucx_unlock(world.worker);
	return status;
}

static void deliver(const struct ucx_wire *wire, size_t bytes)
{
	deliver_as(wire, bytes, 0);
}

static struct ucx_wire make(enum ucx_kind kind, uint64_t bytes)
{
	return (struct ucx_wire){ .comm_id = comm_id, .from = PEER, .kind = (uint8_t)kind, .bytes = bytes };
}

/* Log lines with a text. */
static int lines_of(const char *text)
{
	char line[1024];
	int lines = 0;
	FILE *file = fopen(log_path, "r");
	while (file && fgets(line, sizeof(line), file))
		lines += strstr(line, text) != NULL;
	if (file)
		fclose(file);
	return lines;
}

/* The message changes nothing, and is told of. */
static void refused(const struct ucx_wire *wire, size_t bytes, uint64_t attr, const char *why)
{
	int before = lines_of(why);
	assert_int_equal(deliver_as(wire, bytes, attr), UCS_OK);
	assert_int_equal(lines_of(why), before + 1);
}

/* ---- Fields ---- */

UNIT_TEST(ranks_out_of_range)
{
	static const enum ucx_kind kinds[] = { UCX_HELLO, UCX_BYE, UCX_CONTROL, UCX_WANT, UCX_GRANT };
	start();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct ucx_wire wire = make(kinds[i], 0);
		wire.from = WORLD_RANKS;
		refused(&wire, 0, 0, "no such rank");
		wire.from = 1u << 30;
		refused(&wire, 0, 0, "no such rank");
	}
	finish();
}

UNIT_TEST(lengths)
{
	start();
	struct ucx_wire wire = make(UCX_CONTROL, TRANSPORT_CONTROL_BYTES);
	refused(&wire, TRANSPORT_CONTROL_BYTES - 1, 0, "as long as it should");
	refused(&wire, 0, 0, "as long as it should");
	refused(&wire, TRANSPORT_CONTROL_BYTES + 1, 0, "as long as it should");
	wire.bytes = UINT64_MAX;
	refused(&wire, 100, 0, "as long as it should");
	wire = make(UCX_CONTROL, TRANSPORT_CONTROL_BYTES + 1);
	refused(&wire, TRANSPORT_CONTROL_BYTES + 1, 0, "as long as it should");
	wire = make(UCX_SLOT, UCX_EAGER_BYTES + 1);
	refused(&wire, UCX_EAGER_BYTES, 0, "as long as it should");
	wire = make(UCX_NOTICE, 0);
	refused(&wire, 0, 0, "too small");
	wire = make(UCX_NOTICE, UCX_EAGER_BYTES + 1);
	refused(&wire, 10, 0, "as long as it should");
	wire = make(UCX_BYE, 0);
	refused(&wire, 3, 0, "as long as it should");
	wire = make(UCX_GRANT, UCX_GRANT_BYTES + 1);
	refused(&wire, UCX_GRANT_BYTES + 1, 0, "as long as it should");
	finish();
}

/* A descriptor of UCX's in the place of a payload that is read at once. */
UNIT_TEST(descriptors)
{
	start();
	struct ucx_wire wire = make(UCX_CONTROL, 200);
	refused(&wire, 200, UCP_AM_RECV_ATTR_FLAG_RNDV, "must come with it");
	wire.comm_id = 4711; /* not known yet */
	refused(&wire, 200, UCP_AM_RECV_ATTR_FLAG_RNDV, "must come with it");
	finish();
}

UNIT_TEST(fields)
{
	start();
	struct ucx_wire wire = make(UCX_SLOT, SMALL);
	wire.index = UCX_PROBE_LINK + 1;
	refused(&wire, SMALL, 0, "out of range");
	wire.index = 65535;
	refused(&wire, SMALL, 0, "out of range");
	wire = make(UCX_CONTROL, 0), wire.index = 1;
	refused(&wire, 0, 0, "out of range");
	wire = make(UCX_KINDS, 0);
	refused(&wire, 0, 0, "kind is unknown");
	wire.comm_id = 4711;
	refused(&wire, 0, 0, "kind is unknown");
	wire = make(UCX_NOTICE, BIG), wire.scheme = UCX_SCHEMES;
	refused(&wire, 0, 0, "out of range");
	int before = lines_of("refused");
	ucx_lock(world.worker);
	fake_ucx_deliver(world.worker, &wire, sizeof(wire) - 1, NULL, 0, 0);
	fake_ucx_deliver(world.worker, &wire, sizeof(wire) + 1, NULL, 0, 0);
	ucx_unlock(world.worker);
	assert_int_equal(lines_of("refused"), before + 2);
	finish();
}

/* A key that was cut off: UCX would read behind its end. */
/* A ping is answered where it can be. The last communicator's end pings, and gives up a peer that does not answer. */
UNIT_TEST(pings)
{
	struct ucx_wire ping = { .kind = UCX_PING, .number = 77 }, pong = { .kind = UCX_PONG };
	struct ucx_peer *p;
	start();
	const unsigned count = fake_ucx_count();
	deliver(&ping, 0);
	assert_int_equal(fake_ucx_count(), count);
	deliver_as(&ping, 0, UCP_AM_RECV_ATTR_FIELD_REPLY_EP);
	assert_int_equal(fake_ucx_count(), count + 1);
	assert_int_equal(fake_ucx_sent(count)->wire.kind, UCX_PONG);
	assert_int_equal(fake_ucx_sent(count)->wire.number, 77);

	ucx_lock(world.worker);
	assert_int_equal(ucx_comm_peer(world.worker->comms, PEER, &p), 0);
	ucx_unlock(world.worker);
	p->endpoint->pings = 1;
	pong.number = p->endpoint->uid + 1;
	deliver(&pong, 0);
	assert_int_equal(p->endpoint->pings, 1);
	pong.number = p->endpoint->uid;
	deliver(&pong, 0);
	deliver(&pong, 0); /* nobody asked */
	assert_int_equal(p->endpoint->pings, 0);
	const unsigned sent = fake_ucx_count();
	p->endpoint->pings = 2;
	pong.kind = UCX_MUTE; /* its process ends */
	deliver(&pong, 0);
	assert_int_equal(p->endpoint->pings, 0);
	ucx_end_flush(world.worker, 0, 0);
	assert_int_equal(fake_ucx_count(), sent);
	assert_int_equal(p->endpoint->failed, 0);
	p->endpoint->mute = 0;
	ucx_end_flush(world.worker, 0, 0);
	assert_int_equal(fake_ucx_sent(fake_ucx_count() - 1)->wire.kind, UCX_PING);
	assert_int_equal(fake_ucx_sent(fake_ucx_count() - 1)->wire.number, p->endpoint->uid);
	assert_int_equal(p->endpoint->failed, CORALE_EPEER);
	finish();
}

UNIT_TEST(short_keys)
{
	unsigned char payload[sizeof(struct ucx_grant) + 64] = { 0 };
	const struct ucx_grant grant = {
		.address = 4096, .tag = 1, .depth = WORLD_DEPTH, .slot_bytes = WORLD_SLOT_BYTES
	};
	memcpy(payload, &grant, sizeof(grant));
	for (size_t bytes = 0; bytes <= sizeof(payload); bytes++) {
		start();
		struct ucx_wire wire = make(UCX_GRANT, bytes);
		ucx_lock(world.worker);
		fake_ucx_deliver(world.worker, &wire, sizeof(wire), payload, bytes, 0);
		ucx_unlock(world.worker);
		finish();
	}
}

/* ---- Early notes ---- */

UNIT_TEST(early)
{
	enum { N = 300000, LAST = 1000 + N - 1 }; /* more than is kept, in bytes: */
	struct ucx_wire wire = make(UCX_CONTROL, TRANSPORT_CONTROL_BYTES);
	_Static_assert((size_t)N * TRANSPORT_CONTROL_BYTES > 64u << 20, "more than is kept");
	start();
	int before = lines_of("not open here");
	for (uint32_t i = 0; i < N; i++) {
		wire.comm_id = 1000 + i;
		deliver(&wire, TRANSPORT_CONTROL_BYTES);
		assert_true(world.worker->early.count <= 1u << 16 && world.worker->early.bytes <= 64u << 20);
	}
	assert_int_equal(lines_of("not open here"), before + 1);
	/* the last are still there, and in their order */
	ucx_world_comm(&world, LAST - 1, "am");
	ucx_world_comm(&world, LAST, "am");
	ucx_world_settle(&world);
	assert_int_equal(world.controls, 2);
	ucx_world_comm(&world, 1000, "am"); /* the first are not */
	ucx_world_settle(&world);
	assert_int_equal(world.controls, 2);
	finish();
}

UNIT_TEST(early_and_large)
{
	enum { N = 30000 };
	struct ucx_wire wire = make(UCX_GRANT, UCX_GRANT_BYTES);
	start();
	for (uint32_t i = 0; i < N; i++) {
		wire.comm_id = 1000 + i;
		deliver(&wire, UCX_GRANT_BYTES);
		assert_true(world.worker->early.bytes <= 64u << 20);
	}
	assert_int_equal(world.worker->early.count, (64u << 20) / UCX_GRANT_BYTES);
	finish();
}

/* A flood of messages is not a flood of lines. */
UNIT_TEST(lines_are_few)
{
	struct ucx_wire wire = make(UCX_HELLO, 7);
	start();
	int before = lines_of("refused");
	for (int i = 0; i < 100000; i++)
		deliver(&wire, 0);
	assert_in_range(lines_of("refused") - before, 10, 100);
	finish();
}

/* ---- Devices ---- */

UNIT_TEST(devices)
{
	char text[64], little[20];
	fake_ucx_info =
	    "#\n# UCP context\n#\n#     component 1  :  tcp\n#            md 1  :  component 1  tcp \n#\n"
	    "#      resource 0  :  md 0  dev 0  flags -- self/memory0\n"
	    "#      resource 1  :  md 1  dev 1  flags -- tcp/lo\n"
	    "#      resource 2  :  md 1  dev 2  flags a- rc_mlx5/mlx5_0:1\n"
	    "#      resource 3  :  md 2  dev 3  flags -- sysv/memory\n"
	    "#      resource 4  :  md 2  dev 3  flags -s cuda_ipc/cuda\n"
	    "#      resource 5  :  md 2  dev 3  flags -- tcp/eth0\n#\n";
	ucx_devices_list(NULL, text, sizeof(text));
	assert_string_equal(text, "tcp/lo, rc_mlx5/mlx5_0:1, tcp/eth0");
	ucx_devices_list(NULL, little, sizeof(little));
	assert_string_equal(little, "tcp/lo, ...");
	fake_ucx_info = "#\n";
	ucx_devices_list(NULL, text, sizeof(text));
	assert_string_equal(text, "none");
}

/* What makes calls of CUDA is seen, and left out whatever UCX_TLS asks for; UCX warns of names that it has not. */
UNIT_TEST(transports)
{
	static const char *const cases[][3] = { { NULL, "^sm", "^cuda,sm" },
						{ "", "^sm", "^cuda,sm" },
						{ "all", "all", "^cuda" },
						{ "^tcp", "^tcp", "^cuda,tcp" },
						{ "tcp", "tcp", "tcp" },
						{ "rc,cuda_copy,tcp", "rc,cuda_copy,tcp", "rc,tcp" },
						{ "cuda,gdr_copy,ud", "cuda,gdr_copy,ud", "ud" },
						{ "cuda", "cuda", "" } };
	char text[64];
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		for (int no_cuda = 0; no_cuda < 2; no_cuda++) {
			ucx_devices_transports(cases[i][0], 0, 0, NETWORK_ANY, (enum ucx_cuda)no_cuda, text,
					       sizeof text);
			assert_string_equal(text, cases[i][1 + no_cuda]);
		}
	ucx_devices_transports("^tcp,rc", 0, 0, NETWORK_ANY, 1, text, 10);
	assert_string_equal(text, "^cuda,tcp");
	ucx_devices_transports(NULL, 1, 1, NETWORK_ANY, 0, text, sizeof text);
	assert_string_equal(text, "ib");
	ucx_devices_transports(NULL, 1, 1, NETWORK_ANY, UCX_CUDA_COPY, text, sizeof text);
	assert_string_equal(text, "ib,cuda_copy");
	ucx_devices_transports("rc_v", 1, 0, NETWORK_ANY, UCX_CUDA_COPY, text, sizeof text);
	assert_string_equal(text, "rc_v");
	ucx_devices_transports(NULL, 0, 1, NETWORK_ANY, UCX_NO_CUDA, text, sizeof text);
	assert_string_equal(text, "^cuda,sysv,knem,xpmem");
	ucx_devices_transports(NULL, 0, 1, NETWORK_SOCKET, UCX_ANY_CUDA, text, sizeof text);
	assert_string_equal(text, "posix,cma,tcp,self");
	ucx_devices_transports("tcp", 0, 1, NETWORK_IB, UCX_ANY_CUDA, text, sizeof text);
	assert_string_equal(text, "tcp");
	fake_ucx_info = "#      resource 0  :  md 0  dev 0  flags -- self/memory0\n"
			"#      resource 1  :  md 2  dev 3  flags -s cuda_copy/cuda\n";
	assert_int_equal(ucx_devices_call_cuda(NULL), 1);
	assert_int_equal(ucx_devices_export_dmabuf(NULL), 1);
	fake_ucx_info = "#      resource 0  :  md 0  dev 0  flags -- cuda_ipc/cuda\n"
			"#      resource 1  :  md 2  dev 3  flags -s cuda_copy/cuda\n";
	assert_int_equal(ucx_devices_export_dmabuf(NULL), 0);
	fake_ucx_info =
	    "#     component 1  :  cuda_cpy\n#      resource 0  :  md 0  dev 0  flags -- tcp/lo\n";
	assert_int_equal(ucx_devices_call_cuda(NULL), 0);
}

UNIT_TEST(adapters)
{
	static const struct {
		const char *resource;
		int is_rdma;
	} cases[] = { { "tcp/lo", 0 },      { "ud_mlx5/mlx5_0:1", 0 }, { "rc_mlx5/mlx5_0:1", 1 },
		      { "dc_mlx5/a:1", 1 }, { "srd/rdmap0:1", 1 },     { "rc_verbs/fake0:1", 1 } };
	char text[128];
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(text, sizeof text, "#      resource 0  :  md 0  dev 0  flags -- %s\n",
			 cases[i].resource);
		fake_ucx_info = text;
		assert_int_equal(ucx_devices_have_rdma(NULL), cases[i].is_rdma);
	}
	fake_ucx_info = "#     component 4  :  ib\n#            md 0  :  component 4  cuda_cpy \n";
	assert_int_equal(ucx_devices_have_component(NULL, "ib"), 1);
	assert_int_equal(ucx_devices_have_component(NULL, "cuda_cpy"), 0);
}

#define ADAPTER "#      resource 0  :  md 0  dev 0  flags -- rc_mlx5/mlx5_0:1\n"

/* dmabufs where UCX exports them and can be kept from copies. */
UNIT_TEST(gpudirect)
{
	static const struct {
		const char *info;
		unsigned minor;
		enum ucx_gpudirect_mode mode;
		const char *words;
	} cases[] = {
		{ "#     component 0  :  tcp\n", 22, UCX_GPUDIRECT_NONE, "UCX has no verbs" },
		{ "#     component 0  :  ib\n", 22, UCX_GPUDIRECT_NONE, "UCX opens no RDMA adapter" },
		{ "#     component 0  :  ib\n" ADAPTER, 22, UCX_GPUDIRECT_NONE,
		  "UCX 1.22.0 with verbs, without CUDA" },
		{ "#     component 0  :  ib\n#     component 1  :  cuda_cpy\n" ADAPTER, 20,
		  UCX_GPUDIRECT_NONE, "before 1.21" },
		{ "#     component 0  :  ib\n#     component 1  :  cuda_cpy\n" ADAPTER, 21,
		  UCX_GPUDIRECT_DMABUF, "by dmabuf" },
	};
	char text[256];
	if (access("/sys/kernel/mm/memory_peers/nv_mem/version", F_OK) == 0 ||
	    access("/sys/module/nvidia_peermem/version", F_OK) == 0)
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct ucx_gpudirect g;
		fake_ucx_info = cases[i].info;
		fake_ucx_minor = cases[i].minor;
		ucx_gpudirect_look(NULL, &g);
		assert_int_equal(g.mode, cases[i].mode);
		ucx_gpudirect_print(&g, text, sizeof text);
		assert_non_null(strstr(text, cases[i].words));
		assert_true(ucx_gpudirect_advice(&g)[0]);
	}
}

int main(void)
{
	int fd = mkstemp(log_path);
	if (fd < 0)
		return 1;
	close(fd);
	log_open(LOG_WARN, log_path);
	int failed = unit_run(NULL, NULL);
	unlink(log_path);
	return failed;
}
