/*
 * What the receiving side of the UCX transport believes: messages as they should be, and each field wrong by itself. The
 * test plays UCX and the peers (test/fake_ucx.h); rank 0 is the library's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <unistd.h>

#include "base/log.h"
#include "net/ucx/ucx_devices.h"
#include "ucx_world.h"

enum { BIG = 100000, SMALL = 4096, PEER = 1, OTHER = 2, LANE = 5 };

static const uint64_t comm_id = 0x1122334455667788, other_id = 0x99;
static const unsigned char header[TRANSPORT_HEADER_BYTES] = "a header";

static struct ucx_world world;
static struct ucx_comm *comm;
static struct transport_request request;
static unsigned char buf[BIG];
static char log_path[] = "/tmp/ucx_receive_test.XXXXXX";

/* ---- Helpers ---- */

static void start(const char *way)
{
	fake_ucx_reset(1);
	ucx_world_open(&world);
	comm = ucx_world_comm(&world, comm_id, way);
	ucx_world_comm(&world, other_id, way);
	memset(&request, 0, sizeof(request));
	memset(buf, 0x11, sizeof(buf));
}

static void finish(void)
{
	ucx_world_close(&world);
	assert_true(request.done);
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

static struct ucx_wire make(enum ucx_kind kind, uint64_t bytes, uint32_t sequence)
{
	return (struct ucx_wire){ .comm_id = comm_id,
				  .from = PEER,
				  .sequence = sequence,
				  .lane = kind == UCX_EAGER || kind == UCX_RTS || kind == UCX_CTS ? LANE : 0,
				  .kind = (uint8_t)kind,
				  .bytes = bytes };
}

/* The peer's answer to the last message of the library's. */
static struct ucx_wire answer(enum ucx_kind kind)
{
	struct ucx_wire wire = fake_ucx_sent(fake_ucx_count() - 1)->wire;
	wire.kind = (uint8_t)kind;
	wire.bytes = 0;
	if (kind != UCX_CTS)
		wire.way = 0;
	wire.to = wire.from;
	wire.from = PEER;
	return wire;
}

static struct ucx_wire post_send(void)
{
	ucx_lock(world.worker);
	assert_int_equal(ucx_message_send(comm, PEER, LANE, header, buf, BIG, &request), 0);
	ucx_unlock(world.worker);
	const struct ucx_wire *rts = &fake_ucx_sent(fake_ucx_count() - 1)->wire;
	assert_int_equal(rts->kind, UCX_RTS);
	assert_int_equal(rts->bytes, BIG);
	return *rts;
}

static void post_recv(size_t capacity)
{
	ucx_lock(world.worker);
	assert_int_equal(ucx_message_recv(comm, PEER, LANE, buf, capacity, &request), 0);
	ucx_unlock(world.worker);
}

/* A receive that has asked the peer for its payload; returns the CTS. */
static struct ucx_wire ask(enum ucx_way way)
{
	struct ucx_wire rts = make(UCX_RTS, BIG, 0);
	rts.way = (uint8_t)way;
	rts.send_id = 77;
	post_recv(BIG);
	deliver(&rts, 0);
	const struct ucx_wire *cts = &fake_ucx_sent(fake_ucx_count() - 1)->wire;
	assert_int_equal(cts->kind, UCX_CTS);
	assert_int_equal(cts->send_id, 77);
	assert_int_equal(cts->way, way);
	assert_false(request.done);
	return *cts;
}

static struct ucx_wire ending(enum ucx_kind kind)
{
	struct ucx_wire wire = answer(kind);
	wire.bytes = kind == UCX_GONE ? 0 : BIG;
	return wire;
}

static int is_untouched(void)
{
	for (size_t i = 0; i < sizeof(buf); i++)
		if (buf[i] != 0x11)
			return 0;
	return 1;
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
	assert_false(request.done);
	assert_true(is_untouched());
	assert_int_equal(lines_of(why), before + 1);
}

/* ---- As it should be ---- */

static void eager(void **state)
{
	struct ucx_wire wire = make(UCX_EAGER, SMALL, 0);
	(void)state;
	for (int late = 0; late < 2; late++) {
		start("am");
		if (!late)
			post_recv(SMALL);
		deliver_as(&wire, SMALL, UCP_AM_RECV_ATTR_FLAG_DATA);
		if (late)
			post_recv(SMALL);
		assert_true(request.done && !request.status && request.bytes == SMALL);
		assert_true(buf[0] == 0xa5 && buf[SMALL - 1] == 0xa5 && buf[SMALL] == 0x11);
		finish();
	}
}

static void received_by_am(void **state)
{
	(void)state;
	start("am");
	ask(UCX_WAY_AM);
	struct ucx_wire wire = ending(UCX_DATA);
	assert_int_equal(deliver_as(&wire, BIG, UCP_AM_RECV_ATTR_FLAG_RNDV), UCS_INPROGRESS);
	refused(&wire, BIG, UCP_AM_RECV_ATTR_FLAG_RNDV, "coming already");
	struct ucx_wire gone = ending(UCX_GONE);
	refused(&gone, 0, 0, "coming already");
	ucx_world_settle(&world);
	assert_true(request.done && !request.status && buf[BIG - 1] == 0x5a);
	finish();
}

static void received_by_tag(void **state)
{
	(void)state;
	start("am");
	ask(UCX_WAY_TAG);
	ucx_lock(world.worker);
	assert_true(fake_ucx_deliver_tag(0, BIG));
	ucx_unlock(world.worker);
	assert_true(request.done && !request.status && buf[BIG - 1] == 0x5a);
	finish();
}

static void received_by_put(void **state)
{
	(void)state;
	start("am");
	ask(UCX_WAY_PUT);
	struct ucx_wire wire = ending(UCX_FIN);
	deliver(&wire, 0);
	assert_true(request.done && !request.status);
	finish();
}

static void sent_by_every_way(void **state)
{
	static const char *const names[] = { "am", "tag", "put" };
	(void)state;
	for (int way = 0; way < UCX_WAYS; way++) {
		start(names[way]);
		if (way == UCX_WAY_PUT) { /* the target and key of a receive of ours do */
			ask(UCX_WAY_PUT);
			const struct fake_sent *cts = fake_ucx_sent(fake_ucx_count() - 1);
			struct ucx_wire fin = ending(UCX_FIN), wire;
			unsigned char target[FAKE_PAYLOAD_BYTES];
			size_t bytes = cts->bytes;
			memcpy(target, cts->payload, sizeof(target));
			deliver(&fin, 0);
			post_send();
			wire = answer(UCX_CTS);
			wire.bytes = bytes;
			ucx_lock(world.worker);
			fake_ucx_deliver(world.worker, &wire, sizeof(wire), target, bytes, 0);
			ucx_unlock(world.worker);
			assert_int_equal(fake_ucx_sent(fake_ucx_count() - 1)->wire.kind, UCX_FIN);
			assert_int_equal(fake_ucx_sent(fake_ucx_count() - 1)->wire.recv_id, wire.recv_id);
		} else {
			post_send();
			struct ucx_wire wire = answer(UCX_CTS);
			wire.recv_id = 1234;
			deliver(&wire, 0);
			if (way == UCX_WAY_AM)
				assert_int_equal(fake_ucx_sent(fake_ucx_count() - 1)->wire.recv_id, 1234);
		}
		assert_true(request.done && !request.status);
		finish();
	}
}

static void given_up(void **state)
{
	(void)state;
	start("am");
	ask(UCX_WAY_AM);
	struct ucx_wire gone = answer(UCX_GONE);
	deliver(&gone, 0);
	assert_true(request.done && request.status == CORALE_EPEER);
	finish();
	start("am");
	post_send();
	struct ucx_wire wire = answer(UCX_CTS);
	wire.way = UCX_WAY_REFUSED;
	deliver(&wire, 0);
	assert_true(request.done && !request.status);
	/* what comes for a send that is over is answered */
	unsigned count = fake_ucx_count();
	wire.recv_id = 55;
	deliver(&wire, 0);
	assert_int_equal(fake_ucx_count(), count + 1);
	assert_int_equal(fake_ucx_sent(count)->wire.kind, UCX_GONE);
	assert_int_equal(fake_ucx_sent(count)->wire.recv_id, 55);
	finish();
}

/* ---- Ids that name something else ---- */

static void ends_of_a_send(void **state)
{
	static const enum ucx_kind kinds[] = { UCX_DATA, UCX_FIN, UCX_GONE };
	(void)state;
	for (int i = 0; i < 3; i++) {
		start("am");
		struct ucx_wire rts = post_send(), wire = ending(kinds[i]);
		wire.recv_id = rts.send_id;
		refused(&wire, kinds[i] == UCX_DATA ? BIG : 0, 0, "the other direction");
		finish();
	}
}

static void ends_of_another_way(void **state)
{
	static const struct {
		enum ucx_way way;
		enum ucx_kind kind;
	} cases[] = { { UCX_WAY_AM, UCX_FIN },
		      { UCX_WAY_PUT, UCX_DATA },
		      { UCX_WAY_TAG, UCX_FIN },
		      { UCX_WAY_TAG, UCX_DATA } };
	(void)state;
	for (int i = 0; i < 4; i++) {
		start("am");
		ask(cases[i].way);
		struct ucx_wire wire = ending(cases[i].kind);
		refused(&wire, cases[i].kind == UCX_DATA ? BIG : 0, 0, "in another way");
		ucx_world_settle(&world);
		assert_false(request.done);
		finish();
	}
}

/* Each field of a message that ends a receive, wrong by itself. */
static void ends_from_elsewhere(void **state)
{
	static const struct {
		enum ucx_way way;
		enum ucx_kind kind;
	} cases[] = { { UCX_WAY_AM, UCX_DATA }, { UCX_WAY_PUT, UCX_FIN }, { UCX_WAY_AM, UCX_GONE } };
	(void)state;
	for (int i = 0; i < 3; i++) {
		size_t bytes = cases[i].kind == UCX_DATA ? BIG : 0;
		start("am");
		ask(cases[i].way);
		struct ucx_wire good = ending(cases[i].kind), wire = good;
		wire.comm_id = other_id;
		refused(&wire, bytes, 0, "between other ranks");
		wire = good, wire.from = OTHER;
		refused(&wire, bytes, 0, "between other ranks");
		wire = good, wire.from = 1u << 30;
		refused(&wire, bytes, 0, "between other ranks");
		wire = good, wire.to = OTHER;
		refused(&wire, bytes, 0, "between other ranks");
		wire = good, wire.lane = LANE + 1;
		refused(&wire, bytes, 0, "another message");
		wire = good, wire.sequence++;
		refused(&wire, bytes, 0, "another message");
		finish();
	}
}

static void answers_from_elsewhere(void **state)
{
	(void)state;
	start("am");
	post_send();
	struct ucx_wire good = answer(UCX_CTS), wire = good;
	unsigned count = fake_ucx_count();
	wire.comm_id = other_id;
	refused(&wire, 0, 0, "between other ranks");
	wire = good, wire.from = OTHER;
	refused(&wire, 0, 0, "between other ranks");
	wire = good, wire.lane++;
	refused(&wire, 0, 0, "another message");
	wire = good, wire.way = UCX_WAY_TAG; /* not what was announced */
	refused(&wire, 0, 0, "in another way");
	wire = good, wire.way = 200;
	refused(&wire, 0, 0, "out of range");
	assert_int_equal(fake_ucx_count(), count);
	finish();
	start("am");
	wire = ask(UCX_WAY_PUT); /* a receive is asked for its payload */
	good = answer(UCX_CTS), good.send_id = wire.recv_id;
	refused(&good, 0, 0, "the other direction");
	finish();
}

/* A second answer while the payload is on its way. */
static void answers_twice(void **state)
{
	(void)state;
	start("am");
	fake_ucx_send_at_once(0);
	post_send();
	struct ucx_wire wire = answer(UCX_CTS);
	deliver(&wire, 0);
	unsigned count = fake_ucx_count();
	refused(&wire, 0, 0, "twice");
	assert_int_equal(fake_ucx_count(), count);
	ucx_world_settle(&world);
	assert_true(request.done && !request.status);
	finish();
}

static void ranks_out_of_range(void **state)
{
	static const enum ucx_kind kinds[] = { UCX_CTS, UCX_HELLO, UCX_BYE, UCX_CONTROL, UCX_EAGER, UCX_RTS };
	(void)state;
	start("am");
	post_recv(SMALL);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct ucx_wire wire = make(kinds[i], kinds[i] == UCX_RTS ? BIG : 0, 0);
		wire.send_id = 12345;
		wire.from = WORLD_RANKS;
		refused(&wire, 0, 0, "no such rank");
		wire.from = 1u << 30;
		refused(&wire, 0, 0, "no such rank");
	}
	finish();
}

/* ---- Lengths ---- */

static void lengths(void **state)
{
	(void)state;
	start("am");
	post_recv(SMALL);
	struct ucx_wire wire = make(UCX_EAGER, SMALL, 0);
	refused(&wire, SMALL - 1, 0, "as long as it should");
	refused(&wire, 0, 0, "as long as it should");
	refused(&wire, SMALL + 1, 0, "as long as it should");
	wire.bytes = UINT64_MAX;
	refused(&wire, SMALL, 0, "as long as it should");
	wire = make(UCX_EAGER, UCX_EAGER_BYTES + 1, 0);
	refused(&wire, UCX_EAGER_BYTES + 1, 0, "as long as it should");
	wire = make(UCX_RTS, SMALL, 0); /* small ones are not announced */
	refused(&wire, 0, 0, "too small");
	wire = make(UCX_RTS, BIG, 0);
	refused(&wire, 10, 0, "as long as it should");
	wire = make(UCX_CONTROL, TRANSPORT_CONTROL_BYTES + 1, 0);
	refused(&wire, TRANSPORT_CONTROL_BYTES + 1, 0, "as long as it should");
	wire = make(UCX_BYE, 0, 0);
	refused(&wire, 3, 0, "as long as it should");
	finish();
	start("am");
	ask(UCX_WAY_AM);
	wire = ending(UCX_DATA);
	refused(&wire, BIG - 1, 0, "as long as it should");
	wire.bytes = BIG - 1;
	refused(&wire, BIG - 1, UCP_AM_RECV_ATTR_FLAG_RNDV, "another length");
	finish();
}

/* A descriptor of UCX's in the place of a payload that is read at once. */
static void descriptors(void **state)
{
	(void)state;
	start("am");
	post_recv(SMALL);
	struct ucx_wire wire = make(UCX_EAGER, SMALL, 0);
	refused(&wire, SMALL, UCP_AM_RECV_ATTR_FLAG_RNDV, "must come with it");
	wire = make(UCX_CONTROL, 200, 0);
	refused(&wire, 200, UCP_AM_RECV_ATTR_FLAG_RNDV, "must come with it");
	wire.comm_id = 4711; /* not known yet */
	refused(&wire, 200, UCP_AM_RECV_ATTR_FLAG_RNDV, "must come with it");
	finish();
}

static void short_tag(void **state)
{
	(void)state;
	start("am");
	ask(UCX_WAY_TAG);
	ucx_lock(world.worker);
	assert_true(fake_ucx_deliver_tag(0, BIG - 1));
	ucx_unlock(world.worker);
	assert_true(request.done && request.status);
	finish();
}

/* A key that was cut off: UCX would read behind its end. */
static void short_keys(void **state)
{
	(void)state;
	start("put");
	ask(UCX_WAY_PUT);
	struct ucx_wire fin = ending(UCX_FIN);
	struct fake_sent cts = *fake_ucx_sent(fake_ucx_count() - 1);
	deliver(&fin, 0);
	memset(&request, 0, sizeof(request));
	post_send();
	struct ucx_wire wire = answer(UCX_CTS);
	wire.bytes = cts.bytes;
	for (size_t bytes = 0; bytes < cts.bytes; bytes++) {
		ucx_lock(world.worker);
		fake_ucx_deliver(world.worker, &wire, sizeof(wire), cts.payload, bytes, 0);
		ucx_unlock(world.worker);
		assert_false(request.done);
	}
	finish();
}

/* ---- Fields out of range ---- */

static void fields(void **state)
{
	(void)state;
	start("am");
	post_recv(SMALL);
	struct ucx_wire wire = make(UCX_EAGER, SMALL, 0);
	wire.lane = TRANSPORT_MAX_LANES; /* the probes' */
	refused(&wire, SMALL, 0, "out of range");
	wire.lane = 65535;
	refused(&wire, SMALL, 0, "out of range");
	wire = make(UCX_CONTROL, 0, 0), wire.lane = 1;
	refused(&wire, 0, 0, "out of range");
	wire = make(UCX_KINDS, 0, 0);
	refused(&wire, 0, 0, "kind is unknown");
	wire.comm_id = 4711;
	refused(&wire, 0, 0, "kind is unknown");
	wire = make(UCX_RTS, BIG, 0), wire.way = UCX_WAY_REFUSED;
	refused(&wire, 0, 0, "out of range");
	int before = lines_of("refused");
	ucx_lock(world.worker);
	fake_ucx_deliver(world.worker, &wire, sizeof(wire) - 1, NULL, 0, 0);
	fake_ucx_deliver(world.worker, &wire, sizeof(wire) + 1, NULL, 0, 0);
	ucx_unlock(world.worker);
	assert_int_equal(lines_of("refused"), before + 2);
	finish();
}

/* A message that was received, and one that waits already. */
static void repeated(void **state)
{
	(void)state;
	start("am");
	post_recv(SMALL);
	struct ucx_wire wire = make(UCX_EAGER, SMALL, 0);
	deliver(&wire, SMALL);
	assert_true(request.done);
	memset(&request, 0, sizeof(request));
	memset(buf, 0x11, sizeof(buf));
	refused(&wire, SMALL, UCP_AM_RECV_ATTR_FLAG_DATA, "received already");
	wire.sequence = 1;
	assert_int_equal(deliver_as(&wire, SMALL, UCP_AM_RECV_ATTR_FLAG_DATA), UCS_INPROGRESS);
	refused(&wire, SMALL, UCP_AM_RECV_ATTR_FLAG_DATA, "there already");
	wire.sequence = 3;
	deliver_as(&wire, SMALL, UCP_AM_RECV_ATTR_FLAG_DATA);
	wire.sequence = 2;
	deliver_as(&wire, SMALL, UCP_AM_RECV_ATTR_FLAG_DATA);
	assert_int_equal(fake_ucx_kept(), 3);
	for (int i = 0; i < 3; i++) {
		memset(&request, 0, sizeof(request));
		post_recv(SMALL);
		assert_true(request.done && !request.status);
	}
	finish();
}

/* ---- Peers that are gone ---- */

/* What a lost peer has only announced does not come: UCX would keep the buffer for ever. */
static void announced_and_lost(void **state)
{
	struct ucx_wire rts = make(UCX_RTS, BIG, 0);
	(void)state;
	start("am");
	rts.way = UCX_WAY_TAG;
	deliver(&rts, 0);
	ucx_lock(world.worker);
	ucx_endpoint_abandon(comm->peers[PEER]->endpoint, CORALE_EPEER, "the test cut it");
	ucx_unlock(world.worker);
	ucx_world_settle(&world);
	ucx_lock(world.worker);
	int ret = ucx_message_recv(comm, PEER, LANE, buf, BIG, &request);
	ucx_unlock(world.worker);
	assert_int_equal(ret, CORALE_EPEER);
	assert_false(fake_ucx_holds(buf));
	request.done = 1;
	finish();
}

/* ---- Ids and early messages ---- */

/* Nobody can tell an id from those that he has seen. */
static void ids_are_random(void **state)
{
	enum { N = 16 };
	uint32_t seen[N];
	(void)state;
	for (int round = 0; round < 2; round++) {
		int small = 0, equal = 0;
		start("am");
		for (int i = 0; i < N; i++) { /* the same place again and again */
			seen[i] = (uint32_t)(post_send().send_id >> 32);
			struct ucx_wire wire = answer(UCX_CTS);
			deliver(&wire, 0);
			assert_true(request.done);
			small += seen[i] < 1u << 16;
			for (int k = 0; k < i; k++)
				equal += seen[i] == seen[k] || seen[i] - seen[i - 1] == 1;
		}
		assert_true(small < N / 2);
		assert_int_equal(equal, 0);
		finish();
	}
}

static void early(void **state)
{
	enum { N = 3000, BYTES = 60000 }; /* more than is kept, in bytes */
	struct ucx_wire wire = make(UCX_EAGER, BYTES, 0);
	(void)state;
	start("am");
	int before = lines_of("not open here");
	for (uint32_t i = 0; i < N; i++) {
		wire.comm_id = 1000 + i;
		deliver_as(&wire, BYTES, UCP_AM_RECV_ATTR_FLAG_DATA);
	}
	assert_true(fake_ucx_kept() > 100 && fake_ucx_kept() < 1500);
	assert_int_equal(lines_of("not open here"), before + 1);
	/* the last are still there */
	wire.comm_id = 1000 + N - 1;
	comm = ucx_world_comm(&world, wire.comm_id, "am");
	post_recv(BYTES);
	assert_true(request.done && !request.status);
	finish();
}

static void early_and_empty(void **state)
{
	enum { N = 200000 };
	struct ucx_wire wire = make(UCX_HELLO, 0, 0);
	(void)state;
	start("am");
	int before = lines_of("not open here");
	for (uint32_t i = 0; i < N; i++) {
		wire.comm_id = 1000 + i;
		deliver_as(&wire, 0, 0);
	}
	assert_int_equal(lines_of("not open here"), before + 1);
	request.done = 1;
	finish();
}

/* A flood of messages is not a flood of lines. */
static void lines_are_few(void **state)
{
	struct ucx_wire wire = make(UCX_HELLO, 7, 0);
	(void)state;
	start("am");
	int before = lines_of("refused");
	for (int i = 0; i < 100000; i++)
		deliver(&wire, 0);
	assert_in_range(lines_of("refused") - before, 10, 100);
	request.done = 1;
	finish();
}

/* ---- Devices ---- */

static void devices(void **state)
{
	char text[64], little[20];
	(void)state;
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
static void transports(void **state)
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
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		for (int no_cuda = 0; no_cuda < 2; no_cuda++) {
			ucx_devices_transports(cases[i][0], no_cuda, text, sizeof text);
			assert_string_equal(text, cases[i][1 + no_cuda]);
		}
	ucx_devices_transports("^tcp,rc", 1, text, 10);
	assert_string_equal(text, "^cuda,tcp");
	fake_ucx_info = "#      resource 0  :  md 0  dev 0  flags -- self/memory0\n"
			"#      resource 1  :  md 2  dev 3  flags -s cuda_copy/cuda\n";
	assert_int_equal(ucx_devices_call_cuda(NULL), 1);
	fake_ucx_info =
	    "#     component 1  :  cuda_cpy\n#      resource 0  :  md 0  dev 0  flags -- tcp/lo\n";
	assert_int_equal(ucx_devices_call_cuda(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eager),
		cmocka_unit_test(received_by_am),
		cmocka_unit_test(received_by_tag),
		cmocka_unit_test(received_by_put),
		cmocka_unit_test(sent_by_every_way),
		cmocka_unit_test(given_up),
		cmocka_unit_test(ends_of_a_send),
		cmocka_unit_test(ends_of_another_way),
		cmocka_unit_test(ends_from_elsewhere),
		cmocka_unit_test(answers_from_elsewhere),
		cmocka_unit_test(answers_twice),
		cmocka_unit_test(ranks_out_of_range),
		cmocka_unit_test(lengths),
		cmocka_unit_test(descriptors),
		cmocka_unit_test(short_tag),
		cmocka_unit_test(short_keys),
		cmocka_unit_test(fields),
		cmocka_unit_test(repeated),
		cmocka_unit_test(announced_and_lost),
		cmocka_unit_test(ids_are_random),
		cmocka_unit_test(early),
		cmocka_unit_test(early_and_empty),
		cmocka_unit_test(lines_are_few),
		cmocka_unit_test(devices),
		cmocka_unit_test(transports),
	};
	int fd = mkstemp(log_path);
	if (fd < 0)
		return 1;
	close(fd);
	log_open(LOG_WARN, log_path);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(log_path);
	return failed;
}
