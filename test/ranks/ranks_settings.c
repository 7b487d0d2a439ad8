/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings that differ between ranks: creation fails on all ranks, and the log names the setting and the
 * rank.
 * shapes: 3:0 4:2
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "corale_mpi.h"
#include "test/helpers/ranks.h"

/* Whether the log (all of it is this process's) holds all the words. */
static int logged(const char *path, const char *const *words)
{
	char text[8192];
	FILE *file = fopen(path, "r");
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[n] = '\0';
	if (file)
		fclose(file);
	for (; *words; words++)
		if (!strstr(text, *words)) {
			fprintf(stderr, "# rank %d: the log lacks \"%s\": %s\n", rank, *words, text);
			return 0;
		}
	return 1;
}

int main(int argc, char **argv)
{
	static const char *const words[] = { "CORALE_SLOT_BYTES", "rank 1", NULL };
	char path[] = "/tmp/corale-settings-XXXXXX", value[32];
	corale_comm *comm;
	int fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	ranks_open(&argc, &argv, MPI_THREAD_FUNNELED);
	setenv("CORALE_LOG_FILE", path,
	       1); /* before the library's first look: a path is each rank's own matter */
	snprintf(value, sizeof(value), "%d", rank == 1 ? 65536 : 131072);
	setenv("CORALE_SLOT_BYTES", value, 1);
	int ret = corale_comm_create_mpi(MPI_COMM_WORLD, NULL, &comm);
	if (ret != CORALE_ESETTING)
		fprintf(stderr, "# rank %d: %s\n", rank, corale_strerror(ret));
	ranks_report("a setting that differs is refused on all ranks", ret != CORALE_ESETTING);
	ranks_report("the log names it and the rank", !logged(path, words));
	unlink(path);
	return ranks_close();
}
