/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "env_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"

enum { LINE_BYTES = 4096 }; /* NCCL's own limit */

static const char spaces[] = " \t\r\n";

/* A stream of a regular file; a FIFO or a device could stop the process. */
static FILE *open_regular(const char *path)
{
	struct stat file;
	int fd = descriptor_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &file) || !S_ISREG(file.st_mode)) {
		close(fd);
		errno = EINVAL;
		return NULL;
	}
	FILE *stream = fdopen(fd, "r");
	if (!stream)
		close(fd);
	return stream;
}

/* Removes spaces of both ends. */
static char *trim(char *text)
{
	size_t n;

	text += strspn(text, spaces);
	for (n = strlen(text); n && strchr(spaces, text[n - 1]); n--)
		;
	text[n] = '\0';
	return text;
}

static int add(struct door_conf *conf, const char *name, const char *value)
{
	char **more = realloc(conf->entries, (conf->n + 1) * sizeof(*more));
	char *entry;

	if (!more)
		return ENOMEM;
	conf->entries = more;
	if (asprintf(&entry, "%s=%s", name, value) < 0)
		return ENOMEM;
	conf->entries[conf->n++] = entry;
	return 0;
}

static int read_line(struct door_conf *conf, char *line)
{
	char *equals = strchr(line, '=');

	if (!equals)
		return 0;
	*equals = '\0';
	char *name = trim(line);
	return strncmp(name, "NCCL_", 5) ? 0 : add(conf, name, trim(equals + 1));
}

int door_conf_read(struct door_conf *conf, const char *path)
{
	char line[LINE_BYTES];
	int begins = 1, ret = 0;
	FILE *file = open_regular(path);

	if (!file)
		return errno;
	while (!ret && fgets(line, sizeof(line), file)) {
		int ends = strchr(line, '\n') != NULL;
		if (begins && (ends || feof(file))) /* a line that is too long is passed over */
			ret = read_line(conf, line);
		begins = ends;
	}
	fclose(file);
	return ret;
}

const char *door_conf_find(const struct door_conf *conf, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < conf->n; i++)
		if (!strncmp(conf->entries[i], name, length) && conf->entries[i][length] == '=')
			return conf->entries[i] + length + 1;
	return NULL;
}
