/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as threads for tests: n threads, each with a communicator of one in-process group. */
#ifndef TEAM_H
#define TEAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "test/helpers/clock.h"
#include "corale.h"

struct team {
	int size;
	pthread_barrier_t barrier;
	_Atomic int faults, late, printed;
	void *arg;
	void *shared[64]; /* one place per rank, for what members show each other between barriers */
};

struct team_member {
	struct team *team;
	int rank, size;
	corale_comm *comm; /* destroyed by the team, unless the member destroys it and sets it to NULL */
	void *arg;
	pthread_t thread;
	corale_inproc *group;
	void (*body)(struct team_member *member);
};

/*
 * Runs body once per rank and returns the number of faults (team_fault). config may be NULL. A body must not leave
 * before a team_barrier that others wait at.
 */
int team_run(int size, const corale_config *config, void (*body)(struct team_member *member), void *arg);

/* All members meet, without the library. */
void team_barrier(struct team_member *member);

/* Counts a fault; the first few of a team are printed. */
void team_fault(struct team_member *member, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A fault that is only that something took too long (late.h). */
#define team_late(member, ...) (atomic_fetch_add(&(member)->team->late, 1), team_fault(member, __VA_ARGS__))

/* A fault unless got is the expected code. */
void team_expect(struct team_member *member, int got, int expected, const char *what);

/*
 * Settings are read once a process. Runs this program again with one argument and with settings ("NAME=value ...",
 * separated by blanks) in its environment; returns its exit status, or -1 if it was killed.
 */
int team_spawn(const char *settings, const char *argument);

struct team_case {
	const char *name;
	void (*body)(struct team_member *member);
};

/* TEAM_TEST(function, name) { ... } defines a case of the program, whose body has the member `m`. They run in the order of their lines. */
struct team_test {
	int line;
	struct team_case test;
};

#define TEAM_TEST(function, name)                                                                            \
	static void function(struct team_member *m);                                                         \
	static const struct team_test team_##function = { __LINE__, { name, function } };                    \
	TEAM_ENTRY static const struct team_test *const team_entry_##function = &team_##function;            \
	static void function(struct team_member *m)
#define TEAM_ENTRY __attribute__((used, section("team_tests")))

struct team_runs {
	int least, ranks; /* each case runs with so many ranks; least 0: with the most only */
	const corale_config *config; /* NULL: the default */
	const char *const *settings; /* with each of which every case runs; NULL ends them */
};

enum { TEAM_MAX_CASES = 32 };

/* The main function of a unit test: team_spawn for each TEAM_TEST and settings (team_main.c, with cmocka). */
int team_main(int argc, char **argv, const struct team_runs *runs);

#endif
