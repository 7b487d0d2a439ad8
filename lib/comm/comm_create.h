/* SPDX-License-Identifier: BSD-3-Clause */
/* The phases of creating a communicator; each ends with all ranks agreeing on how it went. */
#ifndef COMM_CREATE_H
#define COMM_CREATE_H

#include "state/comm.h"
#include "hello.h"
#include "net/exchange.h"

/* Collective: exchange.h. */
static inline int comm_agree(const struct comm *comm, int status, const char *what)
{
	return bootstrap_agree(&comm->bootstrap, status, what, NULL);
}

static inline void *comm_gather(const struct comm *comm, int *status, const char *what, const void *mine,
				size_t bytes)
{
	return bootstrap_agree_gather(&comm->bootstrap, status, what, mine, bytes);
}

enum {
	COMM_APART = 1,
	COMM_AGAIN /* all ranks make the communicator anew: GPUs reach each other less well than they said */
};

/*
 * Collective. Shares windows among the ranks of each node; status: what this rank has met so far. On failure comm_close_windows frees what is there. COMM_APART, on all ranks: those of a
 * host can't pass each other descriptors, so hellos says now that each is apart.
 */
int comm_open_windows(struct comm *comm, struct hello *hellos, int status);
void comm_close_windows(struct comm *comm);

/* comm_destroy.c: gives back all that its creation has made, and then the communicator. */
void comm_close(struct comm *comm);
void comm_free(struct comm *comm);

/* Collective. Opens the transport if there are several nodes. */
int comm_open_transport(struct comm *comm, const struct hello *hellos);
/* The transport that all ranks can use; else an error on all ranks, which says why there is none. */
int comm_choose_transport(const struct comm *comm, const struct hello *hellos,
			  const struct transport_row **out);

/* A transport of the communicator's. */
struct comm_rail {
	int number; /* of the process's; 0 is the host engine's */
	const struct transport_slots *gpu_slots; /* of links in GPUs' memory; NULL: the host engine's */
	const char *devices; /* UCX's names; NULL: as the settings say */
	/* NULL: as for all others */
	void (*on_failure)(void *comm, int peer, int code, const char *reason);
};

/* Collective. On failure every rank returns an error. */
int comm_open_rail(struct comm *comm, const struct transport_row *row, const struct comm_rail *rail,
		   struct transport **out);

/* What CORALE_TUNING says of hosts, and of messages between nodes unless CORALE_NET_RATES does, into the topology. */
void comm_use_tuning(struct comm *comm);

/* 0, or CORALE_ESETTING, logged: CORALE_NET_RATES is malformed. */
int comm_check_rates(const struct comm *comm);

/*
 * Collective. What messages between nodes cost, into the topology: as CORALE_NET_RATES says; else as CORALE_TUNING; else as the ranks know it from earlier
 * communicators; else as one pair of ranks for each pair of nodes measures it, eight at most. Built-in rates where ranks share cores, whose turns
 * no measurement of two of them shows. The same on all ranks.
 */
int comm_find_rates(struct comm *comm, const struct hello *hellos);

/* Collective: CORALE_ESETTING on all ranks, with both ranks named, where two see other machines, rates or settings, or choose differently. met: what this rank alone has met before. */
int comm_compare_choices(struct comm *comm, int met);
/* Of a communicator on GPUs: which row runs what, once, as it is the same on all ranks. */
void comm_log_choices(struct comm *comm);

/* Memory that the ranks of a communicator share beside its windows: scratch, and what the user has registered. */

/* comm->make_scratch. Here for_call may be no call: its coll is CORALE_NUM_COLLS. */
int mem_make_scratch(struct comm *comm, const struct call *for_call);

/* 1 if peers' GPUs may store into memory of the user. */
int mem_is_shared(const struct comm *comm);

/* Forgets what is registered, and keeps what was allocated, which stays the user's, for corale_mem_free. */
void mem_close(struct comm *comm);
/* The same of one buffer; then whether a buffer was of such a communicator: 1, it is freed, by this rank alone. */
void mem_keep_outlived(const struct comm *comm, void *buffer);
int mem_free_outlived(const corale_comm *comm, void *buffer);

#endif
