/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/interfaces.h"
#include "base/log.h"
#include "corale.h"
#include "net/network.h"
#include "ucx_devices.h"
#include "ucx_worker.h"

static const char ports_folder[] = "/sys/class/infiniband";

/* ---- Devices ---- */

static void add(struct ucx_network *network, const char *name, size_t length)
{
	const size_t used = strlen(network->devices);
	if (used + 1 + length < sizeof(network->devices))
		snprintf(network->devices + used, sizeof(network->devices) - used, "%s%.*s", used ? "," : "",
			 (int)length, name);
}

/* Active ports, and of these the ones that NCCL_IB_HCA names. What of it is malformed is told where adapters are chosen for GPUs. */
static void add_ports(struct ucx_network *network, const struct settings *settings,
		      const struct adapters *ports)
{
	struct adapters_names names;
	char text[160];
	const int by_name =
	    settings->ib_hca[0] && !adapters_names_parse(settings->ib_hca, &names, text, sizeof(text));
	for (int p = 0; p < ports->nports; p++) {
		const struct adapters_port *port = &ports->port[p];
		if (!port->is_active || (by_name && !adapters_names_match(&names, port->name, port->number)))
			continue;
		snprintf(text, sizeof(text), "%s:%d", port->name, port->number);
		add(network, text, strlen(text));
		network->has_rdma = 1;
	}
}

/* Interfaces for tcp: one, or those that NCCL_SOCKET_IFNAME names. */
static void add_interfaces(struct ucx_network *network, const struct settings *settings,
			   const struct ifaddrs *all)
{
	const char *spec = settings->socket_ifname;
	const struct ifaddrs *best = interface_choose(all, spec, interface_family(settings->socket_family));
	for (const struct ifaddrs *i = all; best && i; i = i->ifa_next)
		if (interface_is_first(all, i) && interface_goes_along(i, best, spec))
			add(network, i->ifa_name, strcspn(i->ifa_name, ":"));
	if (best && interface_class(best->ifa_name) == INTERFACE_DOCKER && !interface_is_named(spec))
		snprintf(network->docker, sizeof(network->docker), "%s", best->ifa_name);
}

/* No interface is named as NCCL_SOCKET_IFNAME says, or has such an address. */
static int report_none(const struct settings *settings, const struct ifaddrs *all, int rank, int is_error)
{
	static _Atomic int said;
	char names[256];
	interface_names(all, names, sizeof(names));
	if (is_error)
		return log_error(CORALE_ESETTING, rank,
				 "transport ucx: no network interface matches NCCL_SOCKET_IFNAME='%s'%s%s; "
				 "interfaces with addresses: %s",
				 settings->socket_ifname,
				 settings->socket_family[0] ? " with NCCL_SOCKET_FAMILY=" : "",
				 settings->socket_family, names);
	log_once(&said, LOG_WARN, rank,
		 "no network interface matches NCCL_SOCKET_IFNAME='%s', so no tcp beside RDMA adapters; "
		 "interfaces with addresses: %s",
		 settings->socket_ifname, names);
	return 0;
}

static int report_no_rdma(const struct settings *settings, const struct adapters *ports, int rank)
{
	char reason[96];
	return log_error(CORALE_ENOTSUP, rank,
			 "transport ucx: %s, and no RDMA adapter can be used: of the %d ports in %s none is "
			 "active%s%s; unset it to use tcp as well",
			 network_kind_reason(settings, reason, sizeof(reason)), ports->nports, ports_folder,
			 settings->ib_hca[0] ? " and named by NCCL_IB_HCA=" : "", settings->ib_hca);
}

static int has_interface_names(const struct settings *settings)
{
	return settings->socket_ifname[0] || settings->socket_family[0];
}

/* 1 if a name of a list is that of no network interface: interfaces are tcp's, RDMA ports have names of their own ("mlx5_0:1"). */
static int names_rdma(const char *list, const struct ifaddrs *all)
{
	for (size_t length; *list; list += length + (list[length] == ',')) {
		int is_interface = 0;
		length = strcspn(list, ",");
		for (const struct ifaddrs *i = all; i; i = i->ifa_next)
			is_interface |= strlen(i->ifa_name) == length && !strncmp(i->ifa_name, list, length);
		if (length && !is_interface)
			return 1;
	}
	return 0;
}

int ucx_network_choose(const struct settings *settings, const char *devices, const struct ifaddrs *all,
		       const struct adapters *ports, int rank, struct ucx_network *out)
{
	*out = (struct ucx_network){ .kind = network_kind(settings) };
	if (devices[0]) {
		out->has_rdma = names_rdma(devices, all);
		snprintf(out->devices, sizeof(out->devices), "%s", devices);
		return 0;
	}
	out->is_ours = 1;
	if (out->kind != NETWORK_SOCKET)
		add_ports(out, settings, ports);
	if (out->kind == NETWORK_IB)
		return out->has_rdma ? 0 : report_no_rdma(settings, ports, rank);
	if (!interface_choose(all, settings->socket_ifname, interface_family(settings->socket_family)) &&
	    has_interface_names(settings))
		return report_none(settings, all, rank, !out->has_rdma);
	add_interfaces(out, settings, all);
	return 0;
}

/* ---- This machine ---- */

int ucx_network_read(const struct settings *settings, const char *devices, int rank, struct ucx_network *out)
{
	struct ifaddrs *all = NULL;
	struct adapters *ports = calloc(1, sizeof(*ports));
	const char *users = secure_getenv("UCX_NET_DEVICES");
	if (!ports)
		return log_error(CORALE_ENOMEM, rank, "transport ucx: no memory");
	if (getifaddrs(&all)) {
		free(ports);
		return log_error(CORALE_ESYSTEM, rank,
				 "transport ucx: cannot list the network interfaces (getifaddrs): %s",
				 strerror(errno));
	}
	adapters_read_files(&(struct adapters_source){ .ports = ports_folder }, ports);
	const int ret =
	    ucx_network_choose(settings, devices[0] || !users ? devices : users, all, ports, rank, out);
	freeifaddrs(all);
	free(ports);
	return ret;
}

/* ---- Into UCX's configuration ---- */

/* What NCCL_IB_TIMEOUT says as a time: UCX rounds it to the nearest power again, and takes what is longer than all of them for never. */
static void print_timeout(long power, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.0fns", 4096.0 * (double)(UINT64_C(1) << (power ? power : 33)));
}

static void print_number(long number, char *text, size_t bytes)
{
	snprintf(text, bytes, "%ld", number);
}

struct option {
	const char *variable; /* NCCL's */
	const char *name; /* UCX's, without "UCX_" */
	size_t offset; /* in struct settings */
	long least, most;
	void (*print)(long number, char *text, size_t bytes);
};

static const struct option options[] = {
	{ "NCCL_IB_GID_INDEX", "IB_GID_INDEX", offsetof(struct settings, ib_gid_index), -1, 255,
	  print_number },
	{ "NCCL_IB_TC", "IB_TRAFFIC_CLASS", offsetof(struct settings, ib_tc), 0, 255, print_number },
	{ "NCCL_IB_SL", "IB_SL", offsetof(struct settings, ib_sl), 0, 15, print_number },
	{ "NCCL_IB_TIMEOUT", "RC_TIMEOUT", offsetof(struct settings, ib_timeout), 0, 31, print_timeout },
	{ "NCCL_IB_RETRY_CNT", "RC_RETRY_COUNT", offsetof(struct settings, ib_retry_cnt), 0, 7,
	  print_number },
};

enum { OPTIONS = sizeof(options) / sizeof(*options) };

static int is_users(const char *name)
{
	char variable[64];
	snprintf(variable, sizeof(variable), "UCX_%s", name);
	return secure_getenv(variable) != NULL;
}

/* -1: UCX chooses. */
static ucs_status_t apply_option(int i, const struct settings *settings, int rank, ucp_config_t *config)
{
	static _Atomic int said[OPTIONS];
	const struct option *o = &options[i];
	const char *text = (const char *)settings + o->offset;
	char value[32];
	long number;
	if (!text[0] || is_users(o->name))
		return UCS_OK;
	if (network_number(text, o->least, o->most, &number)) {
		log_once(&said[i], LOG_WARN, rank,
			 "%s=%s is not used: expected a whole number from %ld to %ld", o->variable, text,
			 o->least, o->most);
		return UCS_OK;
	}
	if (number < 0)
		return UCS_OK;
	o->print(number, value, sizeof(value));
	return ucp_config_modify(config, o->name, value);
}

ucs_status_t ucx_network_apply(const struct ucx_network *network, const struct settings *settings, int rank,
			       ucp_config_t *config)
{
	ucs_status_t status = UCS_OK;
	if (network->devices[0])
		status = ucp_config_modify(config, "NET_DEVICES", network->devices);
	if (status == UCS_OK && network->is_ours) /* of ports that are listed, and that UCX does not open */
		status = ucp_config_modify(config, "WARN_INVALID_CONFIG", "n");
	for (int i = 0; i < OPTIONS && status == UCS_OK && network->has_rdma; i++)
		status = apply_option(i, settings, rank, config);
	return status;
}

/*
 * Of addresses of both families UCX takes the first of IPv4. Its segments are so small that copied messages cost a system call or two for every 8 KB; socket
 * buffers are left to the kernel, which grows them, and limits a size that is set to net.core.wmem_max.
 * From 1.18 on (openucx/ucx pull request 9839) UCX binds each socket to the interface's address before it connects. The connection then has a port of
 * net.ipv4.ip_local_port_range, 28,232 by default, for itself; else those to different listeners share ports. Where most are taken each bind walks them for
 * milliseconds; where all are, no other socket of the host connects (EADDRNOTAVAIL). With one interface the kernel finds the way alone, as for earlier UCX.
 */
ucs_status_t ucx_network_apply_tcp(const struct ucx_network *network, const struct settings *settings,
				   ucp_config_t *config)
{
	const int family = interface_family(settings->socket_family);
	const int interfaces = network->kind == NETWORK_IB ? 0 : ucx_devices_tcp_interfaces(network->devices);
	const struct {
		const char *name, *value;
		int applies;
	} tcp[] = { { "TCP_AF_PRIO", family == 6 ? "inet6" : "inet", family },
		    { "TCP_TX_SEG_SIZE", "64k", 1 },
		    { "TCP_RX_SEG_SIZE", "256k", 1 },
		    { "TCP_EP_BIND_SRC_ADDR", "n", interfaces == 1 && ucx_minor() >= 18 } };
	const size_t prefix = ucx_minor() <= 16 ? strlen("TCP_") : 0; /* which UCX does not know yet */
	ucs_status_t status = UCS_OK;
	for (size_t i = 0; i < sizeof(tcp) / sizeof(tcp[0]) && interfaces && status == UCS_OK; i++)
		if (tcp[i].applies && !is_users(tcp[i].name))
			status = ucp_config_modify(config, tcp[i].name + prefix, tcp[i].value);
	return status;
}
