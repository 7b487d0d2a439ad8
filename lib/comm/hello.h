/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks exchange when a communicator is made, and the check that they agree (P1): versions,
 * hosts, cores, and every setting that must be equal.
 */
#ifndef HELLO_H
#define HELLO_H

#include "corale.h"
#include "base/hash.h"
#include "base/settings.h"
#include "cuda/engine.h"
#include "net/transport.h"
#include "plan/machine/net_rates.h"

/* Why a rank is in no node with all others of its host. */
enum hello_apart {
	HELLO_TOGETHER,
	HELLO_ASKED, /* comm_traits.apart of this rank, or CORALE_P2P=no */
	HELLO_NO_ACCESS, /* GPUs of the host lack access to each other's memory */
	HELLO_NO_DESCRIPTORS /* ranks of the host can't pass each other descriptors */
};

/* A transport that a rank can use; ranks of equal reach can use it with each other. 0: none. */
struct hello_transport {
	uint64_t reach;
	char name[TRANSPORT_NAME_BYTES];
	struct net_sample rates; /* known_rates_last */
};

struct hello {
	uint32_t magic, version;
	int32_t status; /* what this rank has met so far: 0 or a CORALE_E* code */
	int32_t rank, size; /* of this rank, by the bootstrap */
	int32_t cores; /* in its affinity mask */
	uint32_t mask; /* hash of that mask: ranks of a host with one mask share its cores */
	int32_t gpu; /* a CUDA communicator is wanted */
	uint64_t pid; /* as it calls itself: for people */
	uint64_t process; /* process_number() */
	uint64_t host; /* equal on ranks that can share memory and sockets */
	uint64_t node; /* host, or a part of it: equal on ranks that do so, and whose GPUs reach each other */
	int32_t apart; /* enum hello_apart */
	int32_t no_access; /* it asks that no GPU reaches its GPU's memory (NCCL_P2P_DISABLE, CORALE_P2P) */
	int32_t host_window; /* its GPU may share a window in host memory with those of its host */
	uint64_t machine; /* equal on ranks of one kernel, in containers too; 0: not known */
	uint64_t
	    memory; /* equal on ranks of a host whose user and namespaces are the same; 0: no rank may share memory with this one */
	uint64_t pids; /* equal on ranks of one PID namespace of a machine; 0: not known */
	uint64_t number; /* the address of a copy of `process` */
	uint64_t token; /* random */
	uint64_t settings; /* hash of all shared settings */
	uint64_t tuning; /* tuning_hash; 0: CORALE_TUNING names no rates */
	char name[64]; /* of the host */
	struct engine_identity id; /* of its GPU, if one is wanted */
	struct hello_transport transports[TRANSPORT_ROWS]; /* the preferred one first */
};

/* The rank is in a node with those ranks of its host alone that are set apart with an equal part. */
static inline void hello_set_apart(struct hello *hello, enum hello_apart why, uint64_t part)
{
	hello->apart = why;
	hello->node = hash_bytes(hash_start, &hello->host, sizeof hello->host);
	hello->node = hash_bytes(hello->node, &part, sizeof part);
}

/* Fills in this process's facts. host_id: stands for the host's name (NULL: none), to tell hosts apart. */
void hello_init(struct hello *hello, const corale_bootstrap *bootstrap, const struct settings *settings,
		const char *host_id, int status);
/* hello.pids, of the machine. */
uint64_t hello_pids(uint64_t machine);
/* The processes of other nodes may read this one's memory. */
void hello_offer_memory(struct hello *hello);
/* 1 if this process, mine, can read the other's memory, and both offer theirs. */
int hello_reads_memory(const struct hello *mine, const struct hello *other);
/* known_rates.c: the rates that all ranks of the process's last communicator over a transport have agreed on; not valid: there was none. Any thread. */
struct net_sample known_rates_last(const char *transport);
void known_rates_keep(const char *transport, const struct net_sample *rates);
/* Those transports that settings allow; own: as of transport_row_at. hello->gpu is known. */
void hello_probe(struct hello *hello, const struct settings *settings, const struct transport_row *own);
/* What a rank says of a transport, or NULL. */
const struct hello_transport *hello_find(const struct hello *hello, const char *transport);
/* Its reach there, or 0. */
uint64_t hello_reach(const struct hello *hello, const char *transport);
/* All-gathers; *all (size entries) is the caller's to free. Collective. */
int hello_exchange(const corale_bootstrap *bootstrap, const struct hello *mine, struct hello **all);
/* Compares; an error names the setting, the values and the ranks. Collective, same result on every rank. */
int hello_compare(const corale_bootstrap *bootstrap, const struct hello *all,
		  const struct settings *settings);
/* The machine: nodes from hosts (or fake nodes of settings->node_size ranks), cores per rank. */
int hello_topology(const struct hello *all, int size, const struct settings *settings, struct topo **out);

#endif
