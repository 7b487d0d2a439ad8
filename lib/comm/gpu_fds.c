/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of memory between the ranks of a node. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "gpu.h"

int comm_pass_fds(struct comm *comm, struct fdpass *pass, const char *names, size_t stride, const int *mine,
		  int n, const pid_t *pids, int **out)
{
	const int locals = comm->engine.locals;
	const size_t total = (size_t)locals * (size_t)n;
	int peers = 0, *ids = calloc((size_t)locals, sizeof *ids), *got = calloc(total, sizeof *got),
	    *fds = malloc(total * sizeof *fds);
	char(*others)[FDPASS_NAME_BYTES] = calloc((size_t)locals, sizeof *others);
	int ret = ids && got && fds && others
		      ? 0
		      : log_error(CORALE_ENOMEM, comm->rank, "no memory for %d local peers", locals);
	for (int q = 0; !ret && q < locals; q++) {
		if (q == comm->engine.local || (pids && !pids[q]))
			continue;
		ids[peers] = comm_local_rank(comm, q);
		memcpy(others[peers], names + (size_t)ids[peers] * stride, sizeof *others);
		peers++;
	}
	if (!ret && peers)
		ret = fdpass_exchange(pass, peers, (const char(*)[FDPASS_NAME_BYTES])others, ids, comm->rank,
				      comm->id, mine, n, got, comm_wait_seconds(comm));
	for (size_t i = 0; !ret && i < total; i++)
		fds[i] = -1;
	for (int i = 0; !ret && i < peers; i++)
		memcpy(fds + comm->topo->map.local_of[ids[i]] * n, got + i * n, (size_t)n * sizeof *fds);
	free(ids);
	free(got);
	free(others);
	if (ret)
		free(fds);
	*out = ret ? NULL : fds;
	return ret;
}

void comm_close_fds(const struct comm *comm, int n, int *fds)
{
	for (int i = 0; fds && i < comm->engine.locals * n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(fds);
}

int gpu_pass_fds(struct comm *comm, struct fdpass *pass, const char *names, size_t stride, const int *mine,
		 int n, int **fds)
{
	int passed[FDPASS_MAX_FDS] = { -1 }, nothing = -1;
	for (int i = 0; i < n; i++) {
		if (mine[i] < 0 && nothing < 0)
			nothing = descriptor_open("/dev/null", O_RDONLY);
		passed[i] = mine[i] < 0 ? nothing : mine[i];
	}
	const int ret = comm_pass_fds(comm, pass, names, stride, passed, n, NULL, fds);
	if (ret == CORALE_ENOTSUP)
		log_error(ret, comm->rank, "no descriptors of memory can be passed: %s",
			  *fdpass_why(pass) ? fdpass_why(pass) : "a rank of this node can't");
	if (nothing >= 0)
		close(nothing);
	return ret;
}
