#define _GNU_SOURCE
#include "ucx_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beginnings of the transports that do not leave the machine; a name that is new to us is rather shown. */
static const char *const local[] = { "self/",  "sysv/", "posix/",    "cma/",  "knem/",
				     "xpmem/", "cuda_", "gdr_copy/", "rocm_", "ze_" };

static int is_local(const char *name)
{
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (!strncmp(name, local[i], strlen(local[i])))
			return 1;
	return 0;
}

/* Adds "tcp/eth0" of a line like "#  resource 1  :  md 1  dev 1  flags -- tcp/eth0". */
static void add(char *text, size_t bytes, char *line)
{
	static const char more[] = ", ...";
	size_t used = strlen(text);

	char *name = strrchr(line, ' ');
	if (!strstr(line, " resource ") || !name || !strchr(++name, '/') || is_local(name))
		return;
	if (used && !strcmp(text + used - (used < 3 ? used : 3), "..."))
		return;
	if (used + strlen(name) + 2 + sizeof(more) > bytes)
		snprintf(text + used, bytes - used, "%s", used ? more : "...");
	else
		snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", name);
}

/* UCX has no query for them, but prints them for people; the form is that of 1.13 and has stayed so since. */
void ucx_devices_list(ucp_context_h context, char *text, size_t bytes)
{
	char *info = NULL, *rest, *line;
	size_t info_bytes;
	FILE *stream = open_memstream(&info, &info_bytes);

	text[0] = '\0';
	if (!stream) {
		snprintf(text, bytes, "not known: no memory");
		return;
	}
	ucp_context_print_info(context, stream);
	fclose(stream);
	for (line = strtok_r(info, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		add(text, bytes, line);
	free(info);
	if (!text[0])
		snprintf(text, bytes, "none");
}

/* Network interfaces are tcp's; adapters of other transports have names of their own ("mlx5_0:1"). */
static int is_interface(const char *name, size_t length)
{
	char path[64];
	snprintf(path, sizeof(path), "/sys/class/net/%.*s", (int)length, name);
	return length && length < 32 && access(path, F_OK) == 0;
}

int ucx_devices_have_tcp(const char *devices)
{
	const char *transports = secure_getenv("UCX_TLS");
	if (!devices[0])
		devices = secure_getenv("UCX_NET_DEVICES");
	if (transports && strcmp(transports, "all") &&
	    (transports[0] == '^') == (strstr(transports, "tcp") != NULL))
		return 0;
	if (!devices || !devices[0] || !strcmp(devices, "all"))
		return 1;
	for (size_t length; *devices; devices += length + (devices[length] == ',')) {
		length = strcspn(devices, ",");
		if (is_interface(devices, length))
			return 1;
	}
	return 0;
}

static int calls_cuda(const char *transport)
{
	return !strncmp(transport, "cuda", strlen("cuda")) ||
	       !strncmp(transport, "gdr_copy", strlen("gdr_copy"));
}

void ucx_devices_transports(const char *wanted, char *text, size_t bytes)
{
	/* Ranks of other nodes share no memory; ranks of one that is taken for several are to meet what nodes do. */
	snprintf(text, bytes, "%s",
		 !wanted || !wanted[0]    ? "^sm,cuda"
		 : !strcmp(wanted, "all") ? "^cuda"
					  : "");
	if (text[0])
		return;
	if (wanted[0] == '^') {
		snprintf(text, bytes, "^cuda,%s", wanted + 1);
		return;
	}
	for (size_t used = 0, length; *wanted; wanted += length + (wanted[length] == ',')) {
		length = strcspn(wanted, ",");
		if (!calls_cuda(wanted) && used + length + 2 <= bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used ? "," : "",
						 (int)length, wanted);
	}
}

int ucx_devices_are_tcp(const char *list)
{
	const char *next = list;
	while (next && !strncmp(next, "tcp/", strlen("tcp/")))
		if ((next = strstr(next, ", ")))
			next += strlen(", ");
	return !next;
}
