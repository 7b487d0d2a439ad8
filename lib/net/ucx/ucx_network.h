/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which network UCX opens: its devices, transports and what it tells RDMA adapters, by CORALE_NET_DEVICES, NCCL's variables and UCX's own, the user's
 * of which always win.
 *
 * UCX itself takes each interface that is up, and may try to reach a peer by any of them. docker0 has the same address on every host, and so have bridges
 * of virtual machines: so where nobody names interfaces, tcp has one alone, that at which libnccl.so.2's bootstrap listens.
 */
#ifndef UCX_NETWORK_H
#define UCX_NETWORK_H

#include <ifaddrs.h>
#include <ucp/api/ucp.h>

#include "net/adapters.h"
#include "net/network.h"

struct ucx_network {
	enum network_kind kind;
	char devices[1024]; /* UCX's NET_DEVICES; "": its own choice */
	int is_ours; /* the list was made here, and may name ports that UCX does not open */
	int has_rdma; /* a port of an RDMA adapter is in it, as far as names say */
	char docker
	    [16]; /* the interface for tcp, which nobody named, and which every host with Docker has; "": it is another */
};

/*
 * devices: a list to use as it is (CORALE_NET_DEVICES, or a rail's adapter), "": none. all: of getifaddrs. ports: of RDMA adapters, those that are active.
 * 0, or an error that was logged: the variables leave no device. A name of NCCL_SOCKET_IFNAME that no interface has is told, once. Pure, but for its lines.
 */
int ucx_network_choose(const struct settings *settings, const char *devices, const struct ifaddrs *all,
		       const struct adapters *ports, int rank, struct ucx_network *out);

/* The same for this machine, whose ports are read from its files. */
int ucx_network_read(const struct settings *settings, const char *devices, int rank, struct ucx_network *out);

/* Puts devices, and what NCCL's variables tell RDMA adapters where there is one, into a configuration. Malformed values are told, once. */
ucs_status_t ucx_network_apply(const struct ucx_network *network, const struct settings *settings, int rank,
			       ucp_config_t *config);

/* What tcp is told where it is among the devices. Variables of UCX win. */
ucs_status_t ucx_network_apply_tcp(const struct ucx_network *network, const struct settings *settings,
				   ucp_config_t *config);

#endif
