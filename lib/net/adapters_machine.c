/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapters of this machine: what its files say of ports, and which of them settings name. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "corale.h"
#include "adapters.h"
#include "base/log.h"
#include "network.h"

static const char ports_folder[] = "/sys/class/infiniband";

int adapters_read(const struct adapters_source *source, struct adapters **out)
{
	struct adapters *adapters = calloc(1, sizeof(*adapters));
	if (!adapters)
		return CORALE_ENOMEM;
	const int ret = adapters_read_tree(source, adapters);
	if (ret)
		adapters_free(adapters);
	else
		*out = adapters;
	return ret;
}

/* ---- Which ports count ---- */

/* An entry "mlx5_0:1" of CORALE_NET_DEVICES that isn't in the list: UCX may know it all the same. Interfaces ("eth0") have no port, aliases
 * of theirs ("eth0:1") are named like one. */
static void add_named(struct adapters *adapters, const char *device, size_t length)
{
	struct adapters_port port = { .is_active = 1, .object = -1, .use = ADAPTERS_COUNTS };
	char path[64];
	const char *colon = memchr(device, ':', length);
	if (!colon || colon == device || (size_t)(colon - device) >= sizeof(port.name) || atoi(colon + 1) < 1)
		return;
	memcpy(port.name, device, (size_t)(colon - device));
	port.number = atoi(colon + 1);
	for (int p = 0; p < adapters->nports; p++)
		if (!strcmp(adapters->port[p].name, port.name) && adapters->port[p].number == port.number)
			return;
	snprintf(path, sizeof(path), "/sys/class/net/%s", port.name);
	if (access(path, F_OK))
		adapters_add_port(adapters, &port);
}

static void add_all_named(struct adapters *adapters, const char *devices)
{
	if (*devices == '^')
		return;
	for (size_t length; *devices; devices += length + (devices[length] == ',')) {
		length = strcspn(devices, ",");
		add_named(adapters, devices, length);
	}
}

static void leave_out_slow(struct adapters *adapters)
{
	int most = 0;
	for (int p = 0; p < adapters->nports; p++)
		if (adapters->port[p].use == ADAPTERS_COUNTS && adapters->port[p].gbits > most)
			most = adapters->port[p].gbits;
	for (int p = 0; p < adapters->nports; p++) {
		struct adapters_port *port = &adapters->port[p];
		if (port->use == ADAPTERS_COUNTS && port->gbits && 2 * port->gbits < most)
			port->use = ADAPTERS_SLOW;
	}
}

static int count(const struct adapters *adapters)
{
	int n = 0;
	for (int p = 0; p < adapters->nports; p++)
		n += adapters->port[p].use == ADAPTERS_COUNTS;
	return n;
}

static void select_devices(struct adapters *adapters, const char *devices)
{
	add_all_named(adapters, devices);
	for (int p = 0; p < adapters->nports; p++) {
		struct adapters_port *port = &adapters->port[p];
		if (!adapters_devices_match(devices, port->name, port->number))
			port->use = ADAPTERS_NOT_NAMED;
	}
	if (!count(adapters))
		snprintf(adapters->none, sizeof(adapters->none),
			 "CORALE_NET_DEVICES=%.200s names no RDMA adapter with an active port", devices);
}

static int select_hca(struct adapters *adapters, const char *text)
{
	struct adapters_names names;
	char error[160], devices[400];
	if (adapters_names_parse(text, &names, error, sizeof(error)))
		return log_error(CORALE_ESETTING, -1,
				 "NCCL_IB_HCA=%s is malformed: %s; expected [^][=]name[:port],..., as "
				 "\"=mlx5_0:1,mlx5_1:1\": correct or unset it",
				 text, error);
	if (!count(adapters))
		return 0;
	adapters_list(adapters, devices, sizeof(devices));
	for (int p = 0; p < adapters->nports; p++) {
		struct adapters_port *port = &adapters->port[p];
		if (!adapters_names_match(&names, port->name, port->number))
			port->use = ADAPTERS_NOT_NAMED;
	}
	if (count(adapters))
		return 0;
	return log_error(CORALE_ESETTING, -1,
			 "NCCL_IB_HCA=%s leaves no RDMA adapter: active ports of this machine are %s; "
			 "correct or unset it",
			 text, devices);
}

int adapters_select(struct adapters *adapters, const char *net_devices, const char *ib_hca)
{
	snprintf(adapters->none, sizeof(adapters->none), "%s",
		 adapters->nports ? "no port of an RDMA adapter is active" : "no RDMA adapter was found");
	if (net_devices[0])
		select_devices(adapters, net_devices);
	else if (ib_hca[0])
		return select_hca(adapters, ib_hca);
	else
		leave_out_slow(adapters);
	return 0;
}

/* ---- This machine ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct adapters *machine;
static int machine_status;

static void leave_out_all(const struct settings *settings)
{
	char reason[96];
	for (int p = 0; p < machine->nports; p++)
		if (machine->port[p].use == ADAPTERS_COUNTS)
			machine->port[p].use = ADAPTERS_NOT_NAMED;
	snprintf(machine->none, sizeof(machine->none), "%s leaves out RDMA adapters",
		 network_kind_reason(settings, reason, sizeof(reason)));
}

static void read_machine(void)
{
	const struct settings *settings;
	struct adapters_source source = { .ports = ports_folder };
	machine_status = settings_get(&settings);
	if (!machine_status && settings->topo_file[0])
		source.tree = settings->topo_file;
	if (!machine_status)
		machine_status = adapters_read(&source, &machine);
	if (!machine_status)
		machine_status = adapters_select(machine, settings->net_devices, settings->ib_hca);
	if (!machine_status && !settings->net_devices[0] && network_kind(settings) == NETWORK_SOCKET)
		leave_out_all(settings);
}

int adapters_machine(const struct adapters **out)
{
	pthread_once(&once, read_machine);
	*out = machine_status ? NULL : machine;
	return machine_status;
}
