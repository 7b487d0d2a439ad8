/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "ucx_devices.h"

#include <limits.h>
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

static void add(char *text, size_t bytes, const char *name)
{
	static const char more[] = ", ...";
	size_t used = strlen(text);

	if (is_local(name) || (used && !strcmp(text + used - (used < 3 ? used : 3), "...")))
		return;
	if (used + strlen(name) + 2 + sizeof(more) > bytes)
		snprintf(text + used, bytes - used, "%s", used ? more : "...");
	else
		snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", name);
}

/* UCX has no query for resources, but prints them for people; the form is that of 1.13 and has stayed so since. NULL: no memory. */
static char *print_info(ucp_context_h context)
{
	char *info = NULL;
	size_t info_bytes;
	FILE *stream = open_memstream(&info, &info_bytes);
	if (!stream)
		return NULL;
	ucp_context_print_info(context, stream);
	fclose(stream);
	return info;
}

/* The next resource of what was printed, or NULL. */
static const char *next_resource(char **info, char **rest)
{
	const char *name = NULL;
	for (char *line; !name && (line = strtok_r(*info, "\n", rest)); *info = NULL)
		name = resource_of(line);
	return name;
}

/* A component's line is like "#     component 4  :  ib". */
int ucx_devices_have_component(ucp_context_h context, const char *name)
{
	char *info = print_info(context), *rest, *line, found[64];
	int is_there = 0;
	for (line = info ? strtok_r(info, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
		is_there |= sscanf(line, "# component %*d : %63s", found) == 1 && !strcmp(found, name);
	free(info);
	return is_there;
}

/* A domain's line is like "#            md 0  :  component 4  fake0", behind all components. */
uint64_t ucx_devices_domains(ucp_context_h context, const char *component)
{
	char *info = print_info(context), *rest, *line, found[64];
	int number, of, wanted = -1;
	uint64_t domains = 0;
	for (line = info ? strtok_r(info, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
		if (sscanf(line, "# component %d : %63s", &number, found) == 2 && !strcmp(found, component))
			wanted = number;
		if (sscanf(line, "# md %d : component %d", &number, &of) == 2 && of == wanted && number < 64)
			domains |= UINT64_C(1) << number;
	}
	free(info);
	return domains;
}

void ucx_devices_list(ucp_context_h context, char *text, size_t bytes)
{
	char *info = print_info(context), *begin = info, *rest;

	text[0] = '\0';
	if (!info) {
		snprintf(text, bytes, "not known: no memory");
		return;
	}
	for (const char *name; (name = next_resource(&begin, &rest)); begin = NULL)
		add(text, bytes, name);
	free(info);
	if (!text[0])
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

/* 1 if a context has a transport of a kind. */
static int has_any(ucp_context_h context, int (*is_of_kind)(const char *transport))
{
	char *info = print_info(context), *begin = info, *rest;
	int found = 0;
	for (const char *name; info && (name = next_resource(&begin, &rest)); begin = NULL)
		found |= is_of_kind(name);
	free(info);
	return found;
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

int ucx_devices_tcp_interfaces(const char *devices)
{
	const char *transports = secure_getenv("UCX_TLS");
	int n = 0;
	if (transports && strcmp(transports, "all") &&
	    (transports[0] == '^') == (strstr(transports, "tcp") != NULL))
		return 0;
	if (!devices[0] || !strcmp(devices, "all"))
		return INT_MAX;
	for (size_t length; *devices; devices += length + (devices[length] == ',')) {
		length = strcspn(devices, ",");
		n += is_interface(devices, length);
	}
	return n;
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

/*
 * Memory is shared by posix and cma, of one user's processes alone: the group may use segments of sysv. Where nodes are made of one host's ranks for tests
 * (CORALE_NODE_SIZE) no rank shares_memory, so that they meet what nodes do.
 */
static const char *default_transports(int gpu_slots, int shares_memory, enum network_kind kind,
				      enum ucx_cuda cuda)
{
	static const char *const
	    alone[] = { [NETWORK_ANY] = "^sm", [NETWORK_SOCKET] = "tcp,self", [NETWORK_IB] = "ib,self" },
	    *const sharing[] = { [NETWORK_ANY] = "^sysv,knem,xpmem",
				 [NETWORK_SOCKET] = "posix,cma,tcp,self",
				 [NETWORK_IB] = "posix,cma,ib,self" };
	if (gpu_slots)
		return cuda == UCX_CUDA_COPY ? "ib,cuda_copy" : "ib";
	return shares_memory ? sharing[kind] : alone[kind];
}

void ucx_devices_transports(const char *wanted, int gpu_slots, int shares_memory, enum network_kind kind,
			    enum ucx_cuda cuda, char *text, size_t bytes)
{
	const char *list =
	    wanted && wanted[0] ? wanted : default_transports(gpu_slots, shares_memory, kind, cuda);
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
