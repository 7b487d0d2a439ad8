/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's library, opened at run time so that nothing needs it, and the few of its functions that are declared here. */
#ifndef PERF_NCCL_LIBRARY_H
#define PERF_NCCL_LIBRARY_H

#include "perf.h"

struct nccl_id {
	char bytes[128];
};

/* A communicator's configuration as of NCCL 2.28; a later one takes it, too. INT_MIN and NULL: not set. */
struct nccl_config {
	size_t size;
	unsigned magic, version;
	int blocking, cluster_size, min_ctas, max_ctas;
	const char *network;
	int share_split, traffic_class;
	const char *name;
	int in_network, cta_policy, share_shrunk, multicast_ctas, channels_per_peer, nvlink_centric;
};

struct nccl_library {
	void *handle;
	int version;

	const char *(*error_string)(int code);
	int (*get_version)(int *version);
	int (*get_unique_id)(struct nccl_id *id);
	int (*init_rank)(void **comm, int ranks, struct nccl_id id, int rank);
	int (*init_rank_config)(void **comm, int ranks, struct nccl_id id, int rank, struct nccl_config *);
	int (*comm_destroy)(void *comm);
	int (*mem_alloc)(void **buf, size_t bytes);
	int (*mem_free)(void *buf);
	int (*window_register)(void *comm, void *buf, size_t bytes, void **window, int flags);
	int (*window_deregister)(void *comm, void *window);
	int (*group_start)(void);
	int (*group_end)(void);
	int (*all_reduce)(const void *, void *, size_t, int type, int op, void *comm, void *stream);
	int (*reduce_scatter)(const void *, void *, size_t, int type, int op, void *comm, void *stream);
	int (*reduce)(const void *, void *, size_t, int type, int op, int root, void *comm, void *stream);
	int (*gather)(const void *, void *, size_t, int type, int root, void *comm, void *stream);
	int (*scatter)(const void *, void *, size_t, int type, int root, void *comm, void *stream);
	int (*all_gather)(const void *, void *, size_t, int type, void *comm, void *stream);
	int (*broadcast)(const void *, void *, size_t, int type, int root, void *comm, void *stream);
	int (*all_to_all)(const void *, void *, size_t, int type, void *comm, void *stream);
	int (*send)(const void *, size_t, int type, int peer, void *comm, void *stream);
	int (*recv)(void *, size_t, int type, int peer, void *comm, void *stream);
};

struct nccl_comm {
	struct nccl_library *library;
	void *comm; /* NULL: not wanted */
	struct perf_pair pair;
	void *windows[2];
	char name[24];
};

/* Private: a copy of it, which reads NCCL's environment anew. Ends the job where it can't be opened. */
struct nccl_library *nccl_library_open(const struct perf_job *job, int private);
/* Its code stays: threads of it may still be ending. */
void nccl_library_close(struct nccl_library *library);
void nccl_must(const struct perf_job *job, const struct nccl_library *library, int code, const char *what);
void nccl_refuse(const struct perf_job *job, const char *what, const char *why);

/* perf_nccl_calls.c: the call of a collective, with a struct nccl_comm as its peer; NULL: this NCCL has none. */
int (*nccl_run_of(const struct nccl_library *library,
		  const struct perf_coll *coll))(const struct perf_call *);
int nccl_can(const struct nccl_library *library, const struct perf_call *call, const char **why_not);

#endif
