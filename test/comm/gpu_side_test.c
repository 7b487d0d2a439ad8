/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several communicators of a process on its GPUs: whatever number of blocks each asks for, all have some, all fit, and the ranks of each have
 * the same (lib/comm/gpu_blocks.h). Ranks are threads with an engine that runs nothing (fake_engine.h), a GPU each or all on one. Settings are read once a
 * process: each case runs this program again.
 */
#include "test/helpers/unit.h"
#include "comm/gpu_blocks.h"
#include "test/helpers/fake_engine.h"
#include "state/comm.h"
#include "test/helpers/team.h"

/* SHARED: of each of four ranks on one GPU, as eight communicators may have lists of messages from and to each rank there. */
enum { RANKS = 4, ROOM = 128, COMMS = GPU_BLOCKS_COMMS, SHARED = ROOM / COMMS / RANKS };

static int blocks_of(corale_comm *handle)
{
	return atomic_load(&handle->comm)->machine.max_blocks;
}

/* All ranks of a communicator have as many as this one. */
static void expect_alike(struct team_member *m, corale_comm *comm)
{
	int mine = comm ? blocks_of(comm) : -1;
	m->team->shared[m->rank] = &mine;
	team_barrier(m);
	for (int r = 0; r < m->size; r++)
		team_expect(m, *(int *)m->team->shared[r], mine, "blocks of another rank");
	team_barrier(m);
}

/* Creates a communicator of all ranks with a limit of its own, 0: none. */
static int try_create(struct team_member *m, int limit, corale_comm **made)
{
	static corale_inproc *group;
	corale_config config;
	corale_config_init(&config);
	config.device = CORALE_DEVICE_CUDA;
	config.max_channels = limit;
	if (!m->rank)
		team_expect(m, corale_inproc_create(m->size, &group), 0, "a group");
	team_barrier(m);
	const int ret = corale_comm_create_inproc(group, m->rank, &config, made);
	team_barrier(m);
	if (!m->rank)
		corale_inproc_destroy(group);
	return ret;
}

static corale_comm *create(struct team_member *m, int limit)
{
	corale_comm *made = NULL;
	team_expect(m, try_create(m, limit, &made), 0, "a communicator");
	expect_alike(m, made);
	return made;
}

static void expect_blocks(struct team_member *m, corale_comm *comm, int blocks)
{
	team_expect(m, comm ? blocks_of(comm) : -1, blocks, "blocks of a communicator");
	corale_comm_destroy(comm);
	team_barrier(m);
}

/* ---- Cases: the team's own communicator has all blocks, so it goes first ------------------------------------------ */

static void leave_alone(struct team_member *m)
{
	team_expect(m, blocks_of(m->comm), fake_engine_gpu ? ROOM / m->size : ROOM,
		    "blocks of the first one");
	corale_comm_destroy(m->comm);
	m->comm = NULL;
	team_barrier(m);
}

/* Their limits sum to more than the GPU has. */
static void eight_side_by_side(struct team_member *m)
{
	static const int limits[COMMS] = { 64, 100, 32, 32, 127, 16, 64, RANKS };
	corale_comm *comms[COMMS];
	int held = 0;
	leave_alone(m);
	for (int i = 0; i < COMMS; i++) {
		comms[i] = create(m, limits[i]);
		const int blocks = comms[i] ? blocks_of(comms[i]) : 0,
			  most = blocks > m->size ? blocks : m->size;
		if (blocks < 1 || blocks > limits[i])
			team_fault(m, "communicator %d has %d of %d blocks", i, blocks, limits[i]);
		held += fake_engine_gpu ? most * m->size : most;
	}
	if (held > ROOM)
		team_fault(m, "%d communicators hold %d blocks of %d", COMMS, held, ROOM);
	for (int i = 0; i < COMMS; i++) {
		corale_comm_destroy(comms[i]);
		team_barrier(m);
	}
	expect_blocks(m, create(m, 64), fake_engine_gpu ? SHARED : 64);
}

/* What a communicator had is free again. */
static void given_back(struct team_member *m)
{
	leave_alone(m);
	for (int i = 0; i < 2 * COMMS; i++)
		expect_blocks(m, create(m, 64), fake_engine_gpu ? SHARED : 64);
}

static void given_back_by_abort(struct team_member *m)
{
	leave_alone(m);
	for (int i = 0; i < 2 * COMMS; i++) {
		corale_comm *comm = create(m, 64);
		corale_comm_abort(comm);
		expect_blocks(m, comm, fake_engine_gpu ? SHARED : 64);
	}
}

static void given_back_by_failure(struct team_member *m)
{
	corale_comm *made = NULL;
	leave_alone(m);
	fake_engine_connect_fails = CORALE_EDEVICE;
	for (int i = 0; i < COMMS; i++)
		if (!try_create(m, 64, &made) || made)
			team_fault(m, "a communicator was made without windows");
	team_barrier(m);
	fake_engine_connect_fails = 0;
	team_barrier(m);
	expect_blocks(m, create(m, 64), fake_engine_gpu ? SHARED : 64);
}

/* Rank 0 is in a communicator that the others are not in, and has least; what it lacks the others give back. */
static void least_of_all(struct team_member *m)
{
	corale_comm *first = NULL, *all = NULL, *next = NULL, *last = NULL;
	leave_alone(m);
	fake_engine_own_gpu = 1 + m->rank; /* also of children, whose ranks are others */
	corale_comm *whole = create(m, 40);
	team_expect(m, corale_comm_split(whole, m->rank < 2 ? 0 : -1, m->rank, &first), 0, "a split");
	all = create(m, 100); /* ranks 0 and 1: 128 - 40 - 40, and room for five more; the others: 64 */
	next = create(m, 20);
	team_expect(m, corale_comm_split(whole, m->rank < 2 ? -1 : 0, m->rank, &last), 0, "a split");
	if (!fake_engine_gpu) {
		team_expect(m, blocks_of(all), ROOM - 40 - 40 - 5 * m->size, "blocks beside two");
		team_expect(m, blocks_of(next), m->size, "blocks beside three");
		if (first)
			team_expect(m, blocks_of(first), 40, "blocks of two ranks");
		if (last)
			team_expect(m, blocks_of(last), 40, "blocks of two ranks that had more left");
	}
	team_barrier(m);
	corale_comm_destroy(first);
	corale_comm_destroy(last);
	corale_comm_destroy(next);
	corale_comm_destroy(all);
	corale_comm_destroy(whole);
}

/* Without a limit each has all. */
static void without_limit(struct team_member *m)
{
	const int all = fake_engine_gpu ? ROOM / m->size : ROOM;
	corale_comm *next = create(m, 0);
	team_expect(m, blocks_of(next), all, "blocks beside one that has all");
	leave_alone(m);
	corale_comm *third = create(m, 0);
	team_expect(m, blocks_of(third), all, "blocks beside one");
	corale_comm_destroy(next);
	corale_comm_destroy(third);
	team_barrier(m);
	expect_blocks(m, create(m, 0), all);
}

static int is_tried; /* what peers store */

/* The first communicator finds out that memory does not arrive between GPUs, and is made anew; later ones know, and share host memory where it arrives between none. */
static void one_that_lies(struct team_member *m)
{
	const int trials = fake_engine_trials;
	team_expect(m, trials, is_tried ? 2 * m->size : 0, "trials of the first one");
	team_expect(m, atomic_load(&m->comm->comm)->host_window, 0,
		    "the first one knows no GPU by its number");
	leave_alone(m);
	fake_engine_own_gpu = 1 + m->rank;
	corale_comm *comm = create(m, 64);
	team_expect(m, fake_engine_trials, trials, "trials of all");
	team_expect(m, atomic_load(&comm->comm)->host_window,
		    is_tried && fake_engine_lies_to == FAKE_ENGINE_ALL, "a window in host memory");
	team_expect(m, corale_comm_nodes(comm), is_tried && fake_engine_lies_to > 0 ? 2 : 1, "nodes");
	corale_comm_destroy(comm);
	team_barrier(m);
}

static const struct side_case {
	const char *name;
	void (*body)(struct team_member *m);
	const char *check; /* CORALE_P2P_CHECK; NULL: as it is */
	int lies_to, link, is_tried; /* of the engines */
} cases[] = {
	{ "eight side by side", eight_side_by_side, "no", 0, ENGINE_NVLINK, 0 },
	{ "given back", given_back, "no", 0, ENGINE_NVLINK, 0 },
	{ "given back by an abort", given_back_by_abort, "no", 0, ENGINE_NVLINK, 0 },
	{ "given back by a failed creation", given_back_by_failure, "no", 0, ENGINE_NVLINK, 0 },
	{ "the least of all ranks", least_of_all, "no", 0, ENGINE_NVLINK, 0 },
	{ "without a limit", without_limit, "no", 0, ENGINE_NVLINK, 0 },
	{ "a GPU whose memory lies", one_that_lies, "yes", 2, ENGINE_NVLINK, 1 },
	{ "GPUs whose memory lies", one_that_lies, "yes", FAKE_ENGINE_ALL, ENGINE_NVLINK, 1 },
	{ "GPUs that lie over PCIe", one_that_lies, NULL, FAKE_ENGINE_ALL, ENGINE_PEER, 1 },
	{ "GPUs with NVLink, which are not tried", one_that_lies, NULL, FAKE_ENGINE_ALL, ENGINE_NVLINK, 0 },
	{ "GPUs of which nothing is known", one_that_lies, NULL, FAKE_ENGINE_ALL, ENGINE_UNKNOWN_LINK, 0 },
	{ "GPUs that lie, which are not tried", one_that_lies, "no", FAKE_ENGINE_ALL, ENGINE_PEER, 0 },
};
enum { CASES = sizeof(cases) / sizeof(*cases) };

static void run_case(void **state)
{
	const struct side_case *c = *state;
	char number[16], settings[128];
	snprintf(settings, sizeof settings, "CORALE_DEBUG=none CORALE_HOST_WINDOW=8M%s%s",
		 c->check ? " CORALE_P2P_CHECK=" : "", c->check ? c->check : "");
	for (int gpu = 0; gpu < 2; gpu++) {
		snprintf(number, sizeof number, "%d", (int)(c - cases) + gpu * CASES);
		assert_int_equal(team_spawn(settings, number), 0);
	}
}

static int run_ranks(int number)
{
	corale_config config;
	corale_config_init(&config);
	config.device = CORALE_DEVICE_CUDA;
	fake_engine_blocks = ROOM;
	fake_engine_gpu = number >= CASES ? 'a' : 0; /* all ranks on one */
	const struct side_case *c = &cases[number % CASES];
	fake_engine_lies_to = fake_engine_gpu ? 0 : c->lies_to;
	fake_engine_link = c->body == one_that_lies ? c->link : ENGINE_NVLINK;
	is_tried = c->is_tried;
	return team_run(RANKS, &config, cases[number % CASES].body, NULL) != 0;
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[CASES];
	if (argc > 1)
		return run_ranks(atoi(argv[1]));
	for (int i = 0; i < CASES; i++)
		tests[i] = (struct CMUnitTest){ cases[i].name, run_case, NULL, NULL, (void *)&cases[i] };
	return _cmocka_run_group_tests("gpu_side", tests, CASES, NULL, NULL);
}
