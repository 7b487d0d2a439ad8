/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuning_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "corale.h"

enum { MOST_BYTES = TUNING_TEXT };

/* Bytes of the file, at most MOST_BYTES + 1; -1: see errno. A FIFO that nobody writes is empty: nothing here waits. */
static ssize_t read_file(const char *path, char text[MOST_BYTES + 1])
{
	const int fd = descriptor_open(path, O_RDONLY | O_NONBLOCK);
	size_t bytes = 0;
	ssize_t n = fd < 0 ? -1 : 1;
	while (n > 0 && bytes <= MOST_BYTES) {
		n = read(fd, text + bytes, MOST_BYTES + 1 - bytes);
		bytes += n > 0 ? (size_t)n : 0;
	}
	const int saved = errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	return n < 0 ? -1 : (ssize_t)bytes;
}

int tuning_load(const struct settings *settings, int rank, struct tuning *out)
{
	char text[MOST_BYTES + 1], error[TUNING_ERROR];
	*out = (struct tuning){ 0 };
	if (!settings->tuning[0])
		return 0;
	const ssize_t bytes = read_file(settings->tuning, text);
	if (bytes < 0)
		return log_error(CORALE_ESETTING, rank,
				 "CORALE_TUNING=%s can't be read: %s; expected a file of corale-tune",
				 settings->tuning, strerror(errno));
	if (bytes > MOST_BYTES)
		return log_error(CORALE_ESETTING, rank,
				 "CORALE_TUNING=%s has more than %d bytes; expected a file of corale-tune",
				 settings->tuning, MOST_BYTES);
	if (tuning_parse(text, (size_t)bytes, out, error))
		return log_error(CORALE_ESETTING, rank, "CORALE_TUNING=%s, %s", settings->tuning, error);
	return 0;
}
