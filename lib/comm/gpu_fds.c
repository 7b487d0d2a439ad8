/* Memory of GPUs goes between processes as file descriptors. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "base/descriptor.h"
#include "base/log.h"

/* Every rank sends one to all others: one that has none sends what stands for nothing. */
static int exchange(struct comm *comm, struct fdpass *pass, const char (*names)[FDPASS_NAME_BYTES],
		    const int *ids, int fd, int *got)
{
	int nothing = fd < 0 ? descriptor_open("/dev/null", O_RDONLY) : -1;
	int ret = fdpass_exchange(pass, comm->engine.locals - 1, names, ids, comm->rank, comm->id,
				  fd < 0 ? &nothing : &fd, 1, got, comm_wait_seconds(comm));
	if (nothing >= 0)
		close(nothing);
	return ret;
}

int gpu_pass_fds(struct comm *comm, struct fdpass *pass, const char *names, size_t stride, int fd, int **out)
{
	const int locals = comm->engine.locals, me = comm->engine.local;
	size_t n = (size_t)locals;
	int *ids = calloc(n, sizeof *ids), *got = calloc(n, sizeof *got), *fds = calloc(n, sizeof *fds);
	char(*others)[FDPASS_NAME_BYTES] = calloc(n, sizeof *others);
	int ret = ids && got && fds && others
		      ? 0
		      : log_error(CORALE_ENOMEM, comm->rank, "no memory for %d peers", locals);
	for (int i = 0; !ret && i < locals - 1; i++) {
		ids[i] = comm_local_rank(comm, i + (i >= me));
		memcpy(others[i], names + (size_t)ids[i] * stride, sizeof others[i]);
	}
	if (!ret && locals > 1)
		ret = exchange(comm, pass, (const char(*)[FDPASS_NAME_BYTES])others, ids, fd, got);
	for (int q = 0; !ret && q < locals; q++)
		fds[q] = q == me ? -1 : got[q - (q > me)];
	free(ids);
	free(got);
	free(others);
	if (ret)
		free(fds);
	else
		*out = fds;
	return ret;
}

void gpu_close_fds(const struct comm *comm, int *fds)
{
	for (int q = 0; fds && q < comm->engine.locals; q++)
		if (fds[q] >= 0)
			close(fds[q]);
	free(fds);
}
