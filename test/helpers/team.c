/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a case on ranks that are threads of one process, and says which rank failed where. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "late.h"
#include "team.h"

enum { MAX_PRINTED = 12 };

struct start {
	const corale_config *config;
	struct team_member *member;
};

void team_barrier(struct team_member *member)
{
	pthread_barrier_wait(&member->team->barrier);
}

void team_fault(struct team_member *member, const char *format, ...)
{
	char text[400];
	va_list args;
	atomic_fetch_add(&member->team->faults, 1);
	if (atomic_fetch_add(&member->team->printed, 1) >= MAX_PRINTED)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "# rank %d of %d: %s\n", member->rank, member->size, text);
}

void team_expect(struct team_member *member, int got, int expected, const char *what)
{
	if (got != expected)
		team_fault(member, "%s: got %d (%s), expected %d (%s)", what, got, corale_strerror(got),
			   expected, corale_strerror(expected));
}

static void *run_member(void *arg)
{
	struct start *start = arg;
	struct team_member *member = start->member;
	int ret = corale_comm_create_inproc(member->group, member->rank, start->config, &member->comm);
	if (ret == CORALE_ETIMEDOUT)
		team_late(member, "corale_comm_create_inproc: %s", corale_strerror(ret));
	else if (ret)
		team_fault(member, "corale_comm_create_inproc: %s", corale_strerror(ret));
	team_barrier(member);
	int ready = atomic_load(&member->team->faults) == 0;
	team_barrier(member);
	if (ready)
		member->body(member);
	corale_comm_destroy(member->comm);
	return NULL;
}

static void *allocate(int n, size_t bytes)
{
	void *memory = calloc((size_t)n, bytes);
	if (!memory)
		abort();
	return memory;
}

int team_run(int size, const corale_config *config, void (*body)(struct team_member *member), void *arg)
{
	struct team team = { .size = size, .arg = arg };
	struct team_member *members = allocate(size, sizeof(*members));
	struct start *starts = allocate(size, sizeof(*starts));
	corale_inproc *group;
	pthread_barrier_init(&team.barrier, NULL, (unsigned)size);
	if (corale_inproc_create(size, &group))
		abort();
	for (int r = 0; r < size; r++) {
		members[r] = (struct team_member){
			.team = &team, .rank = r, .size = size, .arg = arg, .group = group, .body = body
		};
		starts[r] = (struct start){ config, &members[r] };
		if (pthread_create(&members[r].thread, NULL, run_member, &starts[r]))
			abort();
	}
	for (int r = 0; r < size; r++)
		pthread_join(members[r].thread, NULL);
	corale_inproc_destroy(group);
	pthread_barrier_destroy(&team.barrier);
	free(starts);
	free(members);
	late_tell(atomic_load(&team.faults), atomic_load(&team.late));
	return atomic_load(&team.faults);
}

static void set_environment(const char *settings)
{
	char *copy = strdup(settings), *rest;
	setenv("CORALE_TIMEOUT", "60", 1);
	for (char *word = copy ? strtok_r(copy, " ", &rest) : NULL; word; word = strtok_r(NULL, " ", &rest)) {
		char *equals = strchr(word, '=');
		*equals = '\0';
		setenv(word, equals + 1, 1);
	}
	free(copy);
}

int team_spawn(const char *settings, const char *argument)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		set_environment(settings);
		execl("/proc/self/exe", "test", argument, (char *)NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
