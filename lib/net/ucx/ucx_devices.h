/* SPDX-License-Identifier: BSD-3-Clause */
/* The network devices of a UCX context, for people: who reaches one of them reaches the process (docs/security.md). */
#ifndef UCX_DEVICES_H
#define UCX_DEVICES_H

#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>
#include <ifaddrs.h>

#include "net/network.h"
#include "net/adapters.h"

/* Writes "tcp/eth0, rc_mlx5/mlx5_0:1", or "none"; what does not fit ends in "...". */
void ucx_devices_list(ucp_context_h context, char *text, size_t bytes);

/* How many interfaces UCX will open for tcp, as far as names say: devices is UCX's list, "": all (INT_MAX). UCX_TLS counts too. */
int ucx_devices_tcp_interfaces(const char *devices);

/* Which transports that make calls of CUDA a context has. */
enum ucx_cuda {
	UCX_ANY_CUDA, /* as they come */
	UCX_NO_CUDA,
	UCX_CUDA_COPY /* cuda_copy alone, which exports dmabufs for RDMA adapters */
};

/*
 * Writes what UCX's TLS is to be, where UCX_TLS is `wanted` or NULL: all of a kind of network that a link between nodes can use, with those that
 * share memory where a node is of the same host (shares_memory); for slots in GPUs'
 * memory those of RDMA adapters alone, or the user's choice. UCX warns of a name, of what is left out too, that stands for nothing there: so "ib" means rc, dc, srd
 * and ud, and what makes calls of CUDA is left out, or asked for, only where a context has shown it.
 */
void ucx_devices_transports(const char *wanted, int gpu_slots, int shares_memory, enum network_kind kind,
			    enum ucx_cuda cuda, char *text, size_t bytes);

/* 1 if a context has something that makes calls of CUDA: a thread that moves messages would wait in such a call for the launch of a kernel that
 * waits for a message. */
int ucx_devices_call_cuda(ucp_context_h context);

/* 1 if of what makes calls of CUDA a context has cuda_copy alone. */
int ucx_devices_export_dmabuf(ucp_context_h context);
/* 1 if a name ("rc_mlx5/mlx5_0:1") is that of a transport of an RDMA adapter that puts: rc, dc or srd. */
int ucx_devices_is_rdma(const char *transport);
/* 1 if a context has one. */
int ucx_devices_have_rdma(ucp_context_h context);

/* 1 if UCX has a component ("ib", "cuda_cpy"), whether the context uses it or not. */
int ucx_devices_have_component(ucp_context_h context, const char *name);

/* The memory domains of a component that the context uses: bits by their numbers, as packed keys have them. */
uint64_t ucx_devices_domains(ucp_context_h context, const char *component);

/* 1 if all of a list, as above, are tcp's: cores move every byte. */
int ucx_devices_are_tcp(const char *list);

/*
 * Which network UCX opens: its devices, transports and what it tells RDMA adapters, by CORALE_NET_DEVICES, NCCL's variables and UCX's own, the user's
 * of which always win.
 *
 * UCX itself takes each interface that is up, and may try to reach a peer by any of them. docker0 has the same address on every host, and so have bridges
 * of virtual machines: so where nobody names interfaces, tcp has one alone, that at which libnccl.so.2's bootstrap listens.
 */

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
