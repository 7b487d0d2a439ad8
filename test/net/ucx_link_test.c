/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What links over UCX believe of their peers: messages, credits and grants as they should be, each wrong by itself, and at
 * random. The test plays UCX and the peers (test/net/fake_ucx.h); rank 0 is the library's.
 */

#include <unistd.h>

#include "test/helpers/clock.h"
#include "test/helpers/unit.h"
#include "base/log.h"
#include "net/ucx/ucx_link.h"
#include "ucx_world.h"

enum { PEER = 1, LINK = 5, SMALL = 4096, BIG = WORLD_SLOT_BYTES, DEPTH = WORLD_DEPTH };

static const uint64_t comm_id = 0x1122334455667788;
static const unsigned char header[TRANSPORT_HEADER_BYTES] = "a header";
static char log_path[] = "/tmp/ucx_link_test.XXXXXX";

static struct ucx_world world;
static struct ucx_comm *comm;
static struct link *to_peer;

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

static ucs_status_t deliver(const struct ucx_wire *wire, const void *data, size_t bytes, uint64_t attr)
{
	ucx_lock(world.worker);
	ucs_status_t status = fake_ucx_deliver(world.worker, wire, sizeof(*wire), data, bytes, attr);
	ucx_unlock(world.worker);
	return status;
}

static struct ucx_wire make(enum ucx_kind kind, uint64_t bytes, uint32_t sequence)
{
	struct ucx_wire wire = { .comm_id = comm_id,
				 .from = PEER,
				 .sequence = sequence,
				 .index = LINK,
				 .kind = (uint8_t)kind,
				 .bytes = bytes };
	memcpy(wire.header, header, sizeof(wire.header));
	return wire;
}

static const struct ucx_wire *last_sent(void)
{
	return &fake_ucx_sent(fake_ucx_count() - 1)->wire;
}

static void start(void)
{
	const struct link_params params = { .peer = PEER, .index = LINK };
	fake_ucx_reset(1);
	ucx_world_open(&world);
	comm = ucx_world_comm(&world, comm_id, "am");
	assert_int_equal(ucx_link_ops.open(&comm->base, &params, &to_peer), 0);
}

static void finish(void)
{
	ucx_world_close(&world);
	assert_int_equal(fake_ucx_kept(), 0);
}

/* The peer asks for slots before the program here knows of any. */
static void start_receiving(void)
{
	struct ucx_wire want = make(UCX_WANT, 0, 0);
	start();
	deliver(&want, NULL, 0, 0);
	assert_int_equal(last_sent()->kind, UCX_GRANT);
	assert_int_equal(last_sent()->index, LINK);
	unsigned count = fake_ucx_count();
	deliver(&want, NULL, 0, 0);
	assert_int_equal(link_ready(to_peer), 0);
	assert_int_equal(fake_ucx_count(), count); /* once */
}

static void grant(uint64_t depth, uint64_t slot_bytes, size_t key_bytes)
{
	unsigned char payload[sizeof(struct ucx_grant) + 64] = { 0 };
	const struct ucx_grant g = { .address = 4096, .tag = 1000, .depth = depth, .slot_bytes = slot_bytes };
	struct ucx_wire wire = make(UCX_GRANT, sizeof(g) + key_bytes, 0);
	memcpy(payload, &g, sizeof(g));
	deliver(&wire, payload, sizeof(g) + key_bytes, 0);
}

static void start_sending(void)
{
	start();
	assert_int_equal(link_room(to_peer), 0);
	assert_int_equal(last_sent()->kind, UCX_WANT);
	grant(DEPTH, WORLD_SLOT_BYTES, 24);
	assert_int_equal(link_room(to_peer), 1);
}

static void refused(const struct ucx_wire *wire, size_t bytes, uint64_t attr, const char *why)
{
	int before = lines_of(why);
	assert_int_equal(deliver(wire, NULL, bytes, attr), UCS_OK);
	assert_int_equal(lines_of(why), before + 1);
}

/* The next message is there, with bytes that are all of one value. */
static void take(size_t bytes, int value)
{
	assert_int_equal(link_ready(to_peer), 1);
	const struct link_message *m = link_next(to_peer);
	assert_int_equal(m->bytes, bytes);
	assert_memory_equal(m->header, header, sizeof(m->header));
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(m->data[i], value);
	assert_int_equal(link_release(to_peer), 0);
}

/* ---- Receiving ---- */

UNIT_TEST(arrives)
{
	start_receiving();
	struct ucx_wire wire = make(UCX_SLOT, SMALL, 1);
	deliver(&wire, NULL, SMALL, 0);
	assert_int_equal(link_ready(to_peer), 0); /* the one before it is not there */
	wire.sequence = 0;
	deliver(&wire, NULL, SMALL, 0);
	take(SMALL, 0xa5);
	take(SMALL, 0xa5);
	assert_int_equal(last_sent()->kind, UCX_CREDIT);
	assert_int_equal(last_sent()->number, 2);
	assert_int_equal(link_ready(to_peer), 0);
	finish();
}

UNIT_TEST(arrives_by_every_way)
{
	start_receiving();
	struct ucx_wire wire = make(UCX_SLOT, BIG, 0);
	assert_int_equal(deliver(&wire, NULL, BIG, UCP_AM_RECV_ATTR_FLAG_RNDV), UCS_INPROGRESS);
	assert_int_equal(link_ready(to_peer), 0);
	refused(&wire, BIG, UCP_AM_RECV_ATTR_FLAG_RNDV, "there already");
	ucx_world_settle(&world);
	take(BIG, 0x5a);
	wire = make(UCX_NOTICE, BIG, 1), wire.scheme = UCX_SCHEME_TAG;
	deliver(&wire, NULL, 0, 0);
	assert_int_equal(link_ready(to_peer), 0);
	ucx_lock(world.worker);
	assert_true(fake_ucx_deliver_tag(0, BIG));
	ucx_unlock(world.worker);
	take(BIG, 0x5a);
	wire = make(UCX_NOTICE, BIG, 2), wire.scheme = UCX_SCHEME_PUT;
	deliver(&wire, NULL, 0, 0);
	take(BIG, 0);
	finish();
}

UNIT_TEST(is_refused)
{
	start();
	struct ucx_wire wire = make(UCX_SLOT, SMALL, 0);
	refused(&wire, SMALL, 0, "no slots were granted");
	finish();
	start_receiving();
	refused(&wire, SMALL - 1, 0, "as long as it should");
	wire.from = WORLD_RANKS;
	refused(&wire, SMALL, 0, "no slots were granted");
	wire = make(UCX_SLOT, SMALL, 0), wire.index = LINK + 1;
	refused(&wire, SMALL, 0, "no slots were granted");
	wire = make(UCX_SLOT, SMALL, DEPTH);
	refused(&wire, SMALL, 0, "no slot is free");
	wire = make(UCX_SLOT, SMALL, UINT32_MAX);
	refused(&wire, SMALL, 0, "no slot is free");
	wire = make(UCX_SLOT, BIG + 1, 0);
	refused(&wire, BIG + 1, 0, "longer than a slot");
	refused(&wire, BIG + 1, UCP_AM_RECV_ATTR_FLAG_RNDV, "longer than a slot");
	wire = make(UCX_NOTICE, BIG + 1, 0), wire.scheme = UCX_SCHEME_PUT;
	refused(&wire, 0, 0, "longer than a slot");
	wire = make(UCX_NOTICE, BIG, 0), wire.scheme = UCX_SCHEME_AM;
	refused(&wire, 0, 0, "should be with it");
	wire = make(UCX_NOTICE, UCX_EAGER_BYTES, 0), wire.scheme = UCX_SCHEME_PUT;
	refused(&wire, 0, 0, "too small"); /* small ones come with their notice */
	wire = make(UCX_SLOT, SMALL, 2);
	deliver(&wire, NULL, SMALL, 0);
	refused(&wire, SMALL, 0, "there already");
	assert_int_equal(link_ready(to_peer), 0);
	wire.comm_id = 4711; /* not kept for later: nobody has slots for it */
	deliver(&wire, NULL, SMALL, UCP_AM_RECV_ATTR_FLAG_DATA);
	finish();
}

/* Messages that may still come over a connection that is lost are awaited for some milliseconds. */
static int ready_or_lost(void)
{
	int ret;
	for (int i = 0; !(ret = link_ready(to_peer)) && i < 2000; i++)
		clock_sleep_ms(1);
	return ret;
}

UNIT_TEST(short_tag)
{
	start_receiving();
	struct ucx_wire wire = make(UCX_NOTICE, BIG, 0);
	wire.scheme = UCX_SCHEME_TAG;
	deliver(&wire, NULL, 0, 0);
	ucx_lock(world.worker);
	assert_true(fake_ucx_deliver_tag(0, BIG - 1));
	ucx_unlock(world.worker);
	ucx_world_settle(&world);
	assert_int_equal(ready_or_lost(), CORALE_EPEER);
	assert_int_equal(world.failures, 1);
	finish();
}

/* What the peer had posted when it left still counts, and no more. */
UNIT_TEST(leaves)
{
	start_receiving();
	const struct ucx_sum sums[] = { { 64, 3 }, { LINK, 2 }, { 1u << 20, 7 } };
	struct ucx_wire bye = make(UCX_BYE, sizeof(sums), 0), wire = make(UCX_SLOT, SMALL, 0);
	bye.index = 0;
	bye.number = 1;
	deliver(&bye, sums, sizeof(sums), 0);
	assert_int_equal(link_ready(to_peer), 0);
	for (uint32_t i = 0; i < 2; i++) {
		wire.sequence = i;
		deliver(&wire, NULL, SMALL, 0);
		take(SMALL, 0xa5);
	}
	assert_int_equal(link_ready(to_peer), CORALE_EPEER);
	ucx_world_settle(&world);
	assert_int_equal(world.failures, 1);
	finish();
}

/* A BYE comes by another connection than data, and may be there before data that UCX still receives: slots stay until both are. */
UNIT_TEST(says_bye_before_data)
{
	start_receiving();
	struct ucx_wire wire = make(UCX_NOTICE, BIG, 0), bye = make(UCX_BYE, 0, 0);
	wire.scheme = UCX_SCHEME_TAG;
	deliver(&wire, NULL, 0, 0);
	ucx_lock(world.worker);
	ucx_endpoint_abandon(comm->peers[PEER]->endpoint, CORALE_EPEER, "the test says so");
	ucx_unlock(world.worker);
	unsigned char *const addresses = comm->base.addresses;
	ucx_end_close(comm);
	ucx_comm_free(comm);
	free(addresses);
	bye.index = 0;
	bye.number = UCX_BYE_THROUGH;
	deliver(&bye, NULL, 0, 0);
	assert_null(world.worker->retired);
	ucx_lock(world.worker);
	assert_true(fake_ucx_deliver_tag(0, BIG)); /* writes the slot */
	ucx_unlock(world.worker);
	finish();
}

/* ---- Sending ---- */

UNIT_TEST(is_sent)
{
	start_sending();
	for (int i = 0; i < DEPTH; i++) {
		assert_int_equal(link_room(to_peer), 1);
		memset(link_slot(to_peer), i, SMALL);
		assert_int_equal(link_post(to_peer, header, NULL, SMALL), 0);
		assert_int_equal(last_sent()->kind, UCX_SLOT);
		assert_int_equal(last_sent()->sequence, i);
	}
	assert_int_equal(link_room(to_peer), 0);
	struct ucx_wire credit = make(UCX_CREDIT, 0, 0);
	credit.number = DEPTH + 1; /* more than were posted */
	deliver(&credit, NULL, 0, 0);
	assert_int_equal(link_room(to_peer), 0);
	credit.number = 1;
	deliver(&credit, NULL, 0, 0);
	assert_int_equal(link_room(to_peer), 1);
	assert_int_equal(link_post(to_peer, header, NULL, 0), 0);
	credit.number = 0; /* an older one comes later */
	deliver(&credit, NULL, 0, 0);
	assert_int_equal(link_room(to_peer), 0);
	finish();
}

UNIT_TEST(is_sent_by_every_way)
{
	for (int scheme = 0; scheme < UCX_SCHEMES; scheme++) {
		start_sending();
		comm->forced = scheme;
		assert_int_equal(link_post(to_peer, header, NULL, BIG), 0);
		assert_int_equal(last_sent()->kind, scheme == UCX_SCHEME_AM ? UCX_SLOT : UCX_NOTICE);
		assert_int_equal(last_sent()->scheme, scheme);
		assert_int_equal(last_sent()->bytes, BIG);
		finish();
	}
}

/* Puts over tcp that UCX would emulate go as eager messages: its answer to one whose sender has died ends the process. */
UNIT_TEST(emulates_no_put)
{
	const char *lanes = fake_ucx_lanes;
	const unsigned minor = fake_ucx_minor;
	for (unsigned with = 13; with <= 16; with += 3) {
		fake_ucx_minor = with;
		fake_ucx_lanes =
		    "# lane[0]: 0:tcp/lo.0 md[0] -> md[0]\n# lane[1]: 0:tcp/eth0.0 md[0] -> md[0]\n";
		start_sending();
		comm->forced = UCX_SCHEME_PUT;
		assert_int_equal(link_post(to_peer, header, NULL, BIG), 0);
		assert_int_equal(last_sent()->kind, with < 16 ? UCX_SLOT : UCX_NOTICE);
		assert_int_equal(last_sent()->bytes, BIG);
		finish();
	}
	fake_ucx_lanes = lanes;
	fake_ucx_minor = minor;
}

static int connections(void)
{
	const struct ucx_endpoint *e = comm->peers[PEER]->endpoint;
	return e->data == e->ep ? 1 : 2;
}

/* Small messages, credits and notes go over the connection that tells of deaths; the first large one, sent or received, makes another one. */
UNIT_TEST(makes_connections)
{
	const char *lanes = fake_ucx_lanes;
	struct ucx_wire credit = make(UCX_CREDIT, 0, 0), small = make(UCX_SLOT, 1, 0),
			large = make(UCX_SLOT, BIG, 1);
	unsigned char byte = 7;
	credit.number = 1;
	for (int receives = 0; receives < 2; receives++) {
		start_sending();
		assert_int_equal(link_ready(to_peer), 0);
		assert_int_equal(link_post(to_peer, header, NULL, UCX_EAGER_BYTES), 0);
		deliver(&credit, NULL, 0, 0);
		deliver(&small, &byte, 1, 0);
		take(1, 7);
		assert_int_equal(connections(), 1);
		if (receives)
			deliver(&large, NULL, BIG, UCP_AM_RECV_ATTR_FLAG_RNDV);
		else
			assert_int_equal(link_post(to_peer, header, NULL, BIG), 0);
		assert_int_equal(connections(), 2);
		finish();
	}
	fake_ucx_lanes = "# lane[0]: 0:rc_mlx5/mlx5_0:1.0 md[0] -> md[0]\n";
	start_sending();
	assert_int_equal(link_post(to_peer, header, NULL, BIG), 0);
	assert_int_equal(connections(), 1);
	finish();
	fake_ucx_lanes = lanes;
}

/* A slot is free when UCX has let go of it, too; the notice of a put comes behind its flush. */
UNIT_TEST(is_held)
{
	start_sending();
	comm->forced = UCX_SCHEME_PUT;
	fake_ucx_send_at_once(0);
	unsigned count = fake_ucx_count();
	const unsigned char *slot = link_slot(to_peer);
	assert_int_equal(link_post(to_peer, header, NULL, BIG), 0);
	assert_true(fake_ucx_holds(slot));
	assert_int_equal(fake_ucx_count(), count);
	struct ucx_wire credit = make(UCX_CREDIT, 0, 0);
	credit.number = 1;
	deliver(&credit, NULL, 0, 0);
	assert_int_equal(atomic_load(&to_peer->limit), DEPTH);
	ucx_world_settle(&world);
	assert_int_equal(fake_ucx_count(), count + 1);
	assert_int_equal(last_sent()->kind, UCX_NOTICE);
	assert_int_equal(atomic_load(&to_peer->limit), DEPTH + 1);
	finish();
}

/* Where both sides send, each message says what its sender has taken: an exchange is one UCX message of each side. */
UNIT_TEST(exchange_without_credits)
{
	enum { EXCHANGES = 10 * DEPTH };
	start_sending();
	struct ucx_wire want = make(UCX_WANT, 0, 0), wire = make(UCX_SLOT, SMALL, 0);
	deliver(&want, NULL, 0, 0);
	const unsigned count = fake_ucx_count();
	for (uint32_t i = 0; i < EXCHANGES; i++) {
		assert_int_equal(link_room(to_peer), 1);
		assert_int_equal(link_post(to_peer, header, NULL, SMALL), 0);
		assert_int_equal(last_sent()->number, i);
		wire.sequence = i;
		wire.number = i;
		deliver(&wire, NULL, SMALL, 0);
		take(SMALL, 0xa5);
	}
	assert_int_equal(fake_ucx_count() - count, EXCHANGES);
	finish();
}

/* Where one side sends, the other one returns half of the slots at a time. */
UNIT_TEST(one_way_credits)
{
	enum { MESSAGES = 10 * DEPTH };
	start_receiving();
	struct ucx_wire wire = make(UCX_SLOT, SMALL, 0);
	const unsigned count = fake_ucx_count();
	for (; wire.sequence < MESSAGES; wire.sequence++) {
		deliver(&wire, NULL, SMALL, 0);
		take(SMALL, 0xa5);
	}
	assert_int_equal(fake_ucx_count() - count, MESSAGES / (DEPTH / 2));
	finish();
}

UNIT_TEST(grants_are_refused)
{
	start();
	assert_int_equal(link_room(to_peer), 0);
	int before = lines_of("refused a GRANT");
	grant(0, WORLD_SLOT_BYTES, 24);
	grant(UINT64_MAX, WORLD_SLOT_BYTES, 24);
	grant(DEPTH, WORLD_SLOT_BYTES + 1, 24);
	grant(DEPTH, WORLD_SLOT_BYTES, 0);
	assert_int_equal(link_room(to_peer), 0);
	grant(DEPTH, WORLD_SLOT_BYTES, 24);
	assert_int_equal(link_room(to_peer), 1);
	grant(DEPTH, WORLD_SLOT_BYTES, 24);
	assert_int_equal(lines_of("refused a GRANT"), before + 5);
	finish();
}

UNIT_TEST(lost)
{
	start_sending();
	ucx_lock(world.worker);
	ucx_endpoint_abandon(comm->peers[PEER]->endpoint, CORALE_EPEER, "the test cut it");
	ucx_unlock(world.worker);
	ucx_world_settle(&world);
	assert_int_equal(link_post(to_peer, header, NULL, SMALL), CORALE_EPEER);
	assert_int_equal(link_ready(to_peer), CORALE_EPEER);
	ucx_world_settle(&world);
	assert_int_equal(world.failures, 1);
	finish();
}

/* ---- At random ---- */

static uint32_t draw(uint32_t below)
{
	static uint64_t seed = 88172645463325252u;
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % below;
}

static void deliver_anything(void)
{
	static const enum ucx_kind kinds[] = {
		UCX_WANT, UCX_GRANT, UCX_SLOT, UCX_SLOT, UCX_NOTICE, UCX_CREDIT
	};
	static const size_t sizes[] = { 0, 1, SMALL, UCX_EAGER_BYTES + 1, BIG, BIG + 1 };
	const enum ucx_kind kind = kinds[draw(6)];
	size_t bytes = kind == UCX_GRANT                       ? draw(80)
		       : kind < UCX_SLOT || kind == UCX_CREDIT ? 0
							       : sizes[draw(6)];
	struct ucx_wire wire = make(kind, bytes, (uint32_t)link_taken(to_peer) + draw(DEPTH + 2) - 1);
	unsigned char payload[80] = { 0 };
	for (size_t i = 0; kind == UCX_GRANT && draw(2) && i < sizeof(struct ucx_grant); i++)
		payload[i] = (unsigned char)draw(256);
	wire.scheme = kind == UCX_NOTICE ? (uint8_t)draw(UCX_SCHEMES) : 0;
	wire.number = draw(3) ? draw(DEPTH) : to_peer->posted + draw(2);
	wire.index = draw(20) ? LINK : (uint16_t)draw(80);
	wire.from = draw(20) ? PEER : draw(5);
	if (kind == UCX_SLOT && bytes > UCX_EAGER_BYTES)
		deliver(&wire, NULL, bytes, UCP_AM_RECV_ATTR_FLAG_RNDV);
	else
		deliver(&wire, kind == UCX_GRANT ? payload : NULL, kind == UCX_NOTICE ? 0 : bytes, 0);
}

static void use_link(void)
{
	switch (draw(4)) {
	case 0:
		if (link_room(to_peer) == 1)
			link_post(to_peer, header, NULL, draw(2) ? SMALL : BIG);
		break;
	case 1:
		if (link_ready(to_peer) == 1) {
			assert_in_range(link_next(to_peer)->bytes, 0, BIG);
			link_release(to_peer);
		}
		break;
	case 2:
		ucx_progress(world.worker);
		break;
	default:
		ucx_lock(world.worker);
		fake_ucx_deliver_tag(0, draw(50) ? BIG : SMALL);
		ucx_unlock(world.worker);
	}
	const uint64_t arrived = atomic_load(&to_peer->arrived), limit = atomic_load(&to_peer->limit);
	assert_in_range(arrived - link_taken(to_peer), 0, DEPTH);
	assert_true(limit <= to_peer->posted + DEPTH);
}

UNIT_TEST(anything)
{
	for (int run = 0; run < 300; run++) {
		start();
		comm->forced = (int)draw(UCX_SCHEMES);
		fake_ucx_send_at_once((int)draw(2));
		for (int i = 0; i < 200; i++) {
			deliver_anything();
			use_link();
		}
		finish();
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
