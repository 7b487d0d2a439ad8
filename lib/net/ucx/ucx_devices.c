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

/* "tcp/eth0" of a line like "#  resource 1  :  md 1  dev 1  flags -- tcp/eth0", or NULL. */
static const char *resource_of(const char *line)
{
	const char *name = strstr(line, " resource ") ? strrchr(line, ' ') : NULL;
	return name && strchr(name, '/') ? name + 1 : NULL;
}

/*
 * UCX has no query for resources, but prints them for people; the form is that of 1.13 and has stayed so since. Calls f for each line; 0 without
 * memory.
 */
static int each_line(ucp_context_h context, void (*f)(const char *line, void *arg), void *arg)
{
	char *info = NULL, *rest;
	size_t info_bytes;
	FILE *stream = open_memstream(&info, &info_bytes);
	if (!stream)
		return 0;
	ucp_context_print_info(context, stream);
	fclose(stream);
	for (char *line = info ? strtok_r(info, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
		f(line, arg);
	free(info);
	return 1;
}

struct component {
	const char *name;
	int number; /* -1: not there */
	uint64_t domains; /* a bit each */
};

/* A component's line is like "#     component 4  :  ib", a domain's, behind all components, like "#            md 0  :  component 4  fake0". */
static void read_component(const char *line, void *arg)
{
	struct component *c = arg;
	char found[64];
	int number, of;
	if (sscanf(line, "# component %d : %63s", &number, found) == 2 && !strcmp(found, c->name))
		c->number = number;
	if (sscanf(line, "# md %d : component %d", &number, &of) == 2 && of == c->number && number < 64)
		c->domains |= UINT64_C(1) << number;
}

static struct component find_component(ucp_context_h context, const char *name)
{
	struct component c = { .name = name, .number = -1 };
	each_line(context, read_component, &c);
	return c;
}

int ucx_devices_have_component(ucp_context_h context, const char *name)
{
	return find_component(context, name).number >= 0;
}

uint64_t ucx_devices_domains(ucp_context_h context, const char *component)
{
	return find_component(context, component).domains;
}

struct list {
	char *text;
	size_t bytes;
};

static void add(const char *line, void *arg)
{
	static const char more[] = ", ...";
	const struct list *list = arg;
	const char *name = resource_of(line);
	const size_t used = strlen(list->text), left = list->bytes - used;
	char *end = list->text + used;
	if (!name || is_local(name) || (used && !strcmp(end - (used < 3 ? used : 3), "...")))
		return;
	if (strlen(name) + 2 + sizeof(more) > left)
		snprintf(end, left, "%s", used ? more : "...");
	else
		snprintf(end, left, "%s%s", used ? ", " : "", name);
}

void ucx_devices_list(ucp_context_h context, char *text, size_t bytes)
{
	struct list list = { text, bytes };
	text[0] = '\0';
	if (!each_line(context, add, &list))
		snprintf(text, bytes, "not known: no memory");
	else if (!text[0])
		snprintf(text, bytes, "none");
}

static int calls_cuda(const char *transport)
{
	return !strncmp(transport, "cuda", strlen("cuda")) ||
	       !strncmp(transport, "gdr_copy", strlen("gdr_copy"));
}

int ucx_devices_is_rdma(const char *transport)
{
	return !strncmp(transport, "rc_", strlen("rc_")) || !strncmp(transport, "dc_", strlen("dc_")) ||
	       !strncmp(transport, "srd/", strlen("srd/"));
}

struct kind {
	int (*is_of_kind)(const char *transport);
	int is_there;
};

static void look_for_kind(const char *line, void *arg)
{
	struct kind *kind = arg;
	const char *name = resource_of(line);
	kind->is_there |= name && kind->is_of_kind(name);
}

/* 1 if a context has a transport of a kind. */
static int has_any(ucp_context_h context, int (*is_of_kind)(const char *transport))
{
	struct kind kind = { is_of_kind, 0 };
	each_line(context, look_for_kind, &kind);
	return kind.is_there;
}

int ucx_devices_call_cuda(ucp_context_h context)
{
	return has_any(context, calls_cuda);
}

static int calls_cuda_otherwise(const char *transport)
{
	return calls_cuda(transport) && strncmp(transport, "cuda_copy/", strlen("cuda_copy/"));
}

static int is_cuda_copy(const char *transport)
{
	return calls_cuda(transport) && !calls_cuda_otherwise(transport);
}

int ucx_devices_export_dmabuf(ucp_context_h context)
{
	return has_any(context, is_cuda_copy) && !has_any(context, calls_cuda_otherwise);
}

int ucx_devices_have_rdma(ucp_context_h context)
{
	return has_any(context, ucx_devices_is_rdma);
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

/* A list without those that make calls of CUDA. */
static void leave_out_cuda(const char *list, char *text, size_t bytes)
{
	for (size_t used = 0, length; *list; list += length + (list[length] == ',')) {
		length = strcspn(list, ",");
		if (!calls_cuda(list) && used + length + 2 <= bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used ? "," : "",
						 (int)length, list);
	}
}

void ucx_devices_transports(const char *wanted, int gpu_slots, enum ucx_cuda cuda, char *text, size_t bytes)
{
	/* Ranks of other nodes share no memory; ranks of one that is taken for several are to meet what nodes do. */
	const char *list = wanted && wanted[0]     ? wanted
			   : !gpu_slots            ? "^sm"
			   : cuda == UCX_CUDA_COPY ? "ib,cuda_copy"
						   : "ib";
	text[0] = '\0';
	if (cuda != UCX_NO_CUDA)
		snprintf(text, bytes, "%s", list);
	else if (!strcmp(list, "all"))
		snprintf(text, bytes, "^cuda");
	else if (list[0] == '^')
		snprintf(text, bytes, "^cuda,%s", list + 1);
	else
		leave_out_cuda(list, text, bytes);
}

int ucx_devices_are_tcp(const char *list)
{
	const char *next = list;
	while (next && !strncmp(next, "tcp/", strlen("tcp/")))
		if ((next = strstr(next, ", ")))
			next += strlen(", ");
	return !next;
}
