/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport that the library does not know, from its row alone: it is chosen by preference and by name, where all ranks can use it, and
 * carries collectives. It is that among threads under another name, which carries nothing where a case says so.
 * Settings are read once a process, so the program starts itself for each case.
 */
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "comm/comm_create.h"
#include "comm/transport_rows.h"
#include "test/helpers/matrix.h"
#include "test/helpers/transport_inproc.h"
#include "test/helpers/team.h"
#include "test/helpers/thin.h"
#include "net/ucx/transport_ucx.h"

enum { LARGEST = 40003, RANKS = 4, STRIDE = 5 };

/* ---- The transport ---------------------------------------------------------------------------------------------- */

/* What becomes of messages; set before communicators are made. */
static enum fake_network {
	FAKE_CARRIES,
	FAKE_DROPS, /* as a firewall does */
	FAKE_LEADS_NOWHERE
} fake_network;
static struct transport_ops fake_ops; /* inproc's, with functions that a transport may lack left out, */
static struct link_ops fake_links; /* and with these two */

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	if (fake_network == FAKE_LEADS_NOWHERE)
		return log_error(CORALE_EPEER, params->rank, "transport fake: it was told to reach nobody");
	return transport_inproc_ops.links->open(t, params, out);
}

static int post(struct link *l, const void *header, const void *data, size_t bytes)
{
	if (fake_network == FAKE_CARRIES)
		return transport_inproc_ops.links->post(l, header, data, bytes);
	l->posted++;
	return 0;
}

static uint64_t probe(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	snprintf(why_not, bytes, "it has no memory for messages of GPUs");
	return gpus ? 0 : transport_inproc.probe(row, gpus, why_not, bytes);
}

static int open_fake(const struct transport_row *row, const struct transport_params *params,
		     struct transport **out)
{
	const int ret = transport_inproc.open(row, params, out);
	if (!ret)
		(*out)->ops = &fake_ops;
	return ret;
}

static void make_fake(void)
{
	fake_links = *transport_inproc_ops.links;
	fake_links.open = open_link;
	fake_links.post = post;
	fake_ops = transport_inproc_ops;
	fake_ops.links = &fake_links;
	fake_ops.has_met = NULL;
}

static const struct transport_row transport_fake = { .name = "fake", .probe = probe, .open = open_fake };
/* In the place of lib/comm/transport_rows.c: the same rows, and two more. */
const struct transport_row *const transport_rows[TRANSPORT_ROWS + 1] = { &transport_fake, &transport_inproc,
									 &transport_ucx,
									 &transport_mpi_absent };

/* ---- Networks that carry ---------------------------------------------------------------------------------------- */

static void check_row(struct team_member *me, const struct transport_row *expected)
{
	const struct transport *t = comm_get(me->comm, "test")->engine.transport;
	if (t->row != expected)
		team_fault(me, "transport %s, not %s", t->row->name, expected->name);
}

static void run_cases(struct team_member *me)
{
	static const size_t counts[] = { 1, 1003, LARGEST };
	struct matrix matrix;
	struct matrix_case c;
	char text[512];
	const int stride = matrix_stride(STRIDE);
	int kind;
	check_row(me, &transport_fake);
	if (matrix_open(&matrix, me->comm, LARGEST))
		abort();
	for (long i = matrix_first(STRIDE, me->size); (kind = matrix_case_at(i, me->size, counts, 3, &c));
	     i += stride) {
		uint64_t digest;
		if (kind == 1 && thin_takes((uint64_t)(i / stride), 5) &&
		    matrix_run(&matrix, &c, &digest, text, sizeof text))
			team_fault(me, "%s", text);
		if (atomic_load(&me->team->faults))
			break;
	}
	matrix_close(&matrix);
}

static void look_for_inproc(struct team_member *me)
{
	check_row(me, &transport_inproc);
}

/* One rank calls what the others do not: what they tell each other goes by the transport. */
static void mismatch(struct team_member *me)
{
	float in = 1, out = 0;
	const corale_op op = me->rank == 1 ? CORALE_MAX : CORALE_SUM;
	int ret = corale_all_reduce(&in, &out, 1, CORALE_FLOAT32, op, me->comm, NULL);
	team_expect(me, ret, CORALE_EMISMATCH, "rank 1 has another operator");
	team_barrier(me);
}

static int refuse(const char *name)
{
	corale_inproc *group;
	corale_comm *comm;
	char wanted[128];
	snprintf(wanted, sizeof wanted, "%s is malformed: expected auto, fake, inproc, ucx, mpi", name);
	if (corale_inproc_create(1, &group))
		return 1;
	int ret = corale_comm_create_inproc(group, 0, NULL, &comm);
	corale_inproc_destroy(group);
	return ret == CORALE_ESETTING && strstr(log_last_error(), wanted) ? 0 : 1;
}

/* ---- Networks that carry nothing ------------------------------------------------------------------------------- */

struct creator {
	corale_inproc *group;
	int rank, code;
	double seconds;
	const char *expected;
	int says_it;
};

static void *create_one(void *arg)
{
	struct creator *c = arg;
	corale_comm *comm;
	const double start = clock_s();
	c->code = corale_comm_create_inproc(c->group, c->rank, NULL, &comm);
	c->seconds = clock_s() - start;
	c->says_it = strstr(log_last_error(), c->expected) != NULL;
	if (c->code && !c->says_it)
		printf("# rank %d: %s\n", c->rank, log_last_error());
	return NULL;
}

/* Two ranks, each a node: both creations fail with this code and text, within so many seconds; 1: they do not. */
static int refuse_network(enum fake_network network, int code, double seconds, const char *expected)
{
	struct creator ranks[2];
	pthread_t threads[2];
	corale_inproc *group;
	int faults = corale_inproc_create(2, &group) != 0;
	fake_network = network;
	for (int r = 0; !faults && r < 2; r++) {
		ranks[r] = (struct creator){ .group = group, .rank = r, .expected = expected };
		faults |= pthread_create(&threads[r], NULL, create_one, &ranks[r]);
	}
	for (int r = 0; !faults && r < 2; r++)
		pthread_join(threads[r], NULL);
	corale_inproc_destroy(group);
	for (int r = 0; !faults && r < 2; r++)
		if (ranks[r].code != code || ranks[r].seconds > seconds || !ranks[r].says_it) {
			printf("# rank %d returned %d after %.3f s; %d within %g s was expected\n", r,
			       ranks[r].code, ranks[r].seconds, code, seconds);
			return 1;
		}
	return faults;
}

/* What team_spawn starts. */
static int run_here(const char *argument)
{
	if (!strcmp(argument, "cases"))
		return team_run(RANKS, NULL, run_cases, NULL) + team_run(3, NULL, run_cases, NULL) != 0;
	if (!strcmp(argument, "inproc"))
		return team_run(2, NULL, look_for_inproc, NULL) != 0;
	if (!strcmp(argument, "mismatch"))
		return team_run(3, NULL, mismatch, NULL) != 0;
	if (!strcmp(argument, "dropped"))
		return refuse_network(FAKE_DROPS, CORALE_ETIMEDOUT, 5.9, "was answered within 3 s");
	if (!strcmp(argument, "unreachable"))
		return refuse_network(FAKE_LEADS_NOWHERE, CORALE_EPEER, 5.9, "it was told to reach nobody");
	return refuse("CORALE_TRANSPORT=fke");
}

UNIT_TEST(test_preferred)
{
	assert_int_equal(team_spawn("CORALE_NODE_SIZE=2", "cases"), 0);
}

UNIT_TEST(test_by_name)
{
	assert_int_equal(team_spawn("CORALE_NODE_SIZE=1 CORALE_TRANSPORT=Fake", "cases"), 0);
	assert_int_equal(team_spawn("CORALE_NODE_SIZE=1 CORALE_TRANSPORT=inproc", "inproc"), 0);
}

UNIT_TEST(test_mismatch)
{
	assert_int_equal(team_spawn("CORALE_NODE_SIZE=1 CORALE_DEBUG=none", "mismatch"), 0);
}

UNIT_TEST(test_unknown_name)
{
	assert_int_equal(team_spawn("CORALE_TRANSPORT=fke CORALE_DEBUG=none", "unknown"), 0);
}

/* Creation's deadline holds for the timing of links, too, which ends before the other waits do. Ranks that share cores time nothing. */
UNIT_TEST(test_no_network)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip();
	assert_int_equal(team_spawn("CORALE_NODE_SIZE=1 CORALE_TIMEOUT=6 CORALE_DEBUG=none", "dropped"), 0);
	assert_int_equal(team_spawn("CORALE_NODE_SIZE=1 CORALE_TIMEOUT=6 CORALE_DEBUG=none", "unreachable"),
			 0);
}

/* The choice among what two ranks say of themselves. */
static const struct transport_row *choose(const struct hello_transport *first,
					  const struct hello_transport *second)
{
	struct comm comm = { .size = 2 };
	const struct transport_row *row = NULL;
	struct hello hellos[2] = { { .name = "first", .host = 1 }, { .name = "second", .host = 2 } };
	struct topo *topo;
	assert_int_equal(topo_create(2, (const uint64_t[]){ 1, 2 }, &topo), 0);
	comm.topo = topo;
	snprintf(comm.settings.transport, sizeof comm.settings.transport, "auto");
	memcpy(hellos[0].transports, first, 2 * sizeof *first);
	memcpy(hellos[1].transports, second, 2 * sizeof *second);
	int ret = comm_choose_transport(&comm, hellos, &row);
	assert_int_equal(ret, row ? 0 : CORALE_ENOTSUP);
	topo_destroy(topo);
	return row;
}

UNIT_TEST(test_choice)
{
	static const struct hello_transport both[2] = { { .reach = 7, .name = "fake" },
							{ .reach = 1, .name = "ucx" } },
					    reversed[2] = { { .reach = 1, .name = "ucx" },
							    { .reach = 7, .name = "fake" } },
					    apart[2] = { { .reach = 8, .name = "fake" },
							 { .reach = 1, .name = "ucx" } },
					    ucx[2] = { { .reach = 1, .name = "ucx" } },
					    fake[2] = { { .reach = 7, .name = "fake" } },
					    none[2] = { { .reach = 0, .name = "" } },
					    unknown[2] = { { .reach = 1, .name = "notterminated!!!" } };
	log_open(LOG_NONE, NULL);
	assert_ptr_equal(choose(both, both), &transport_fake);
	assert_ptr_equal(choose(both, reversed), &transport_fake);
	assert_ptr_equal(choose(reversed, both), &transport_ucx);
	assert_ptr_equal(choose(both, apart), &transport_ucx);
	assert_ptr_equal(choose(both, ucx), &transport_ucx);
	assert_ptr_equal(choose(ucx, fake), NULL);
	assert_non_null(strstr(log_last_error(),
			       "fake can't be used: it does not connect rank 0 (host first) and "
			       "rank 1 (host second)"));
	assert_ptr_equal(choose(both, none), NULL);
	assert_ptr_equal(choose(unknown, unknown), NULL);
	log_open(LOG_WARN, NULL);
}

int main(int argc, char **argv)
{
	make_fake();
	if (argc > 1)
		return run_here(argv[1]);
	return unit_run(NULL, NULL);
}
