/* Memory of GPUs goes between processes as file descriptors. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "base/log.h"

/* Every rank sends one to all others: one that has none sends what stands for nothing. */
static int exchange(struct comm *comm, struct fdpass *pass, const char (*names)[FDPASS_NAME_BYTES],
		    const int *ids, int fd, int *got)
{
	double timeout = comm->settings.timeout > 0 ? comm->settings.timeout : -1;
	int nothing = fd < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	int ret = fdpass_exchange(pass, comm->size - 1, names, ids, comm->rank, comm->id,
				  fd < 0 ? &nothing : &fd, 1, got, timeout);
	if (nothing >= 0)
		close(nothing);
	return ret;
}

int gpu_pass_fds(struct comm *comm, struct fdpass *pass, const char *names, size_t stride, int fd, int **out)
{
	size_t n = (size_t)comm->size;
	int *ids = calloc(n, sizeof *ids), *got = calloc(n, sizeof *got), *fds = calloc(n, sizeof *fds);
	char(*others)[FDPASS_NAME_BYTES] = calloc(n, sizeof *others);
	int ret = ids && got && fds && others
		      ? 0
		      : log_error(CORALE_ENOMEM, comm->rank, "no memory for %d peers", comm->size);
	for (int i = 0; !ret && i < comm->size - 1; i++) {
		ids[i] = i + (i >= comm->rank);
		memcpy(others[i], names + (size_t)ids[i] * stride, sizeof others[i]);
	}
	if (!ret)
		ret = exchange(comm, pass, (const char(*)[FDPASS_NAME_BYTES])others, ids, fd, got);
	for (int r = 0; !ret && r < comm->size; r++)
		fds[r] = r == comm->rank ? -1 : got[r - (r > comm->rank)];
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
	for (int r = 0; fds && r < comm->size; r++)
		if (fds[r] >= 0)
			close(fds[r]);
	free(fds);
}
