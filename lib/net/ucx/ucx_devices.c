#include "ucx_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
