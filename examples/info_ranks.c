/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Under a launcher the ranks of a host tell the first of them, which prints. This program links no MPI, so they meet at a socket with an abstract
 * name, made of what the launcher says of the job; messages of other users are dropped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "info_net.h"

enum { WAIT_S = 5 };

struct launcher {
	const char *rank, *local, *locals; /* variables with numbers */
	const char *job[2]; /* with what names the job; NULL: its processes have one parent */
};

/* Slurm: of a step, which srun starts; a batch script has the job's variables, and is alone. */
static const struct launcher launchers[] = {
	{ "OMPI_COMM_WORLD_RANK",
	  "OMPI_COMM_WORLD_LOCAL_RANK",
	  "OMPI_COMM_WORLD_LOCAL_SIZE",
	  { "PMIX_NAMESPACE", NULL } },
	{ "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", { NULL, NULL } },
	{ "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", { "SLURM_JOB_ID", "SLURM_STEP_ID" } },
};

/* -1: unset, or no number. "8(x2)", as Slurm says 8 on each of 2 nodes, is 8. */
static int number_of(const char *name)
{
	const char *text = getenv(name);
	char *end;
	if (!text || !*text)
		return -1;
	const long number = strtol(text, &end, 10);
	return (*end && *end != '(') || strchr(end, ',') || number < 0 || number > 1 << 20 ? -1 : (int)number;
}

static const struct launcher *find_launcher(void)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers); i++)
		if (number_of(launchers[i].rank) >= 0 && number_of(launchers[i].local) >= 0 &&
		    number_of(launchers[i].locals) > 1)
			return &launchers[i];
	return NULL;
}

int info_ranks_find(struct info_rank *self, int *locals)
{
	const struct launcher *launcher = find_launcher();
	if (!launcher)
		return 0;
	*self = (struct info_rank){ .rank = number_of(launcher->rank), .local = number_of(launcher->local) };
	*locals = number_of(launcher->locals);
	if (*locals > INFO_RANKS)
		*locals = INFO_RANKS;
	return self->local < *locals;
}

static socklen_t make_address(struct sockaddr_un *address)
{
	const struct launcher *launcher = find_launcher();
	const char *job[2] = { launcher->job[0] ? getenv(launcher->job[0]) : NULL,
			       launcher->job[1] ? getenv(launcher->job[1]) : NULL };
	char parent[24];
	snprintf(parent, sizeof(parent), "%d", (int)getppid());
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "corale-info.%u.%.60s.%.20s",
		 (unsigned)getuid(), job[0] ? job[0] : parent, job[1] ? job[1] : "");
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address->sun_path + 1));
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The first rank may not listen yet. */
static void send_to_first(int fd, const struct sockaddr_un *address, socklen_t length,
			  const struct info_rank *self)
{
	const double end = now() + WAIT_S;
	while (sendto(fd, self, sizeof(*self), 0, (const struct sockaddr *)address, length) < 0 &&
	       now() < end)
		usleep(10000);
}

static int is_own(struct msghdr *message)
{
	const struct cmsghdr *header = CMSG_FIRSTHDR(message);
	struct ucred sender;
	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS)
		return 0;
	memcpy(&sender, CMSG_DATA(header), sizeof(sender));
	return sender.uid == getuid();
}

/* 1: a rank's message; 0: another one; -1: none has come in time. */
static int receive_one(int fd, struct info_rank *rank)
{
	char control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec part = { rank, sizeof(*rank) };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	const ssize_t bytes = recvmsg(fd, &message, 0);
	if (bytes < 0)
		return errno == EINTR ? 0 : -1;
	rank->gpu[sizeof(rank->gpu) - 1] = '\0';
	return bytes == sizeof(*rank) && is_own(&message);
}

static void receive_all(int fd, int locals, struct info_rank *ranks)
{
	const struct timeval wait = { .tv_sec = 1 };
	const double end = now() + WAIT_S;
	const int on = 1;
	int missing = locals - 1;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)))
		return;
	while (missing && now() < end) {
		struct info_rank rank;
		if (receive_one(fd, &rank) != 1 || rank.local < 1 || rank.local >= locals ||
		    ranks[rank.local].is_there)
			continue;
		ranks[rank.local] = rank;
		ranks[rank.local].is_there = 1;
		missing--;
	}
}

void info_ranks_gather(const struct info_rank *self, int locals, struct info_rank *ranks)
{
	struct sockaddr_un address;
	const socklen_t length = make_address(&address);
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < locals; i++)
		ranks[i] = (struct info_rank){ .rank = -1, .local = i };
	ranks[self->local] = *self;
	ranks[self->local].is_there = 1;
	if (fd < 0)
		return;
	if (self->local)
		send_to_first(fd, &address, length, self);
	else if (!bind(fd, (const struct sockaddr *)&address, length))
		receive_all(fd, locals, ranks);
	close(fd);
}
