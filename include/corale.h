/*
 * Corale: collectives on host and GPU memory, layered on MPI.
 *
 * This header is the manual. It needs nothing but a C99 or C++11 compiler;
 * communicators from an MPI_Comm are in corale_mpi.h.
 *
 * Conventions, said once:
 * - Every function that can fail returns 0 or a negative CORALE_E* code. Results
 *   come through the last pointer arguments and are written only on success.
 * - count is in elements of the call's type, never bytes; other sizes say "bytes".
 * - One thread at a time per communicator; different communicators may be used
 *   from different threads at once. corale_comm_abort may come from any thread.
 * - Every rank of a communicator makes the same collective calls in the same order
 *   with the same count, type, operator and root. A call that differs is found
 *   before a byte is reduced: CORALE_EMISMATCH, with both calls in the log. The receive
 *   buffer then holds what it held before, but for a rank's own data (its block, what a root
 *   sends) and, on GPUs, for receive buffers that peers map and copy engines store into
 *   (all_gather, all_to_all, broadcast and all_reduce of some MB and more into memory of
 *   corale_mem_alloc or cuMemCreate): those are undefined.
 * - A process that forks after its first communicator was made can use Corale itself, its
 *   child can not: every call there is refused by name. A child that calls exec is free.
 * - stream: a corale_stream (host communicators) or a cudaStream_t (CUDA ones);
 *   NULL means blocking for a host communicator and the default stream,
 *   asynchronously, for a CUDA one.
 * - In place: send == recv where a call says so; buffers never overlap otherwise.
 * - Buffers belong to the caller and must stay valid until the call has completed
 *   on its stream.
 * - Calls on one CUDA communicator run in the order in which they were made, whatever
 *   their streams. A stream may be destroyed as soon as the call has returned; work on it
 *   goes on. How replays of graphs and calls outside of them follow each other is the
 *   caller's to order, alike on all ranks. Of one capture, calls on cudaStreamPerThread of
 *   several threads are refused (CORALE_ENOTSUP).
 * - Calls on a CUDA communicator run on its GPU, whichever is current in the thread.
 * - Large calls of several CUDA communicators on several streams hold the GPU's
 *   processors while they wait for peers, so those at work at a time must fit side by
 *   side: with n such communicators set max_channels to a GPU's multiprocessors / n,
 *   or put their calls in one order, the same on all ranks, by one stream or events.
 * - The first function that knows the cause of an error logs one line; the same
 *   line is returned by corale_comm_last_error.
 *
 * How a program learns of a failure. Calls on the host return it. A call on a CUDA stream has returned 0 long before, so after
 * synchronizing the stream ask: if (corale_comm_async_error(comm)) { ... }. One thread of the process, which the first communicator
 * starts, looks some thirty times a second after all of them: a kernel that failed (in a graph, too), or a process of this
 * node that died or called exit() without corale_comm_destroy, is logged and told to all ranks within 0.1 s, whatever the
 * program does meanwhile; calls in progress, on streams too, then end with an error (CORALE_EPEER names a dead rank and its process). With
 * MPI as the transport, below MPI_THREAD_MULTIPLE, a rank's next call tells the other nodes. Between nodes, when nothing has come for two seconds,
 * each rank that waits logs one WARN line: for whom, and whether that one's process answers; the call goes on. Every later kernel of a failed communicator,
 * replays of its graphs included, ends at once and stores nothing in receive buffers.
 */
#ifndef CORALE_H
#define CORALE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#pragma GCC visibility push(default) /* the library is built with hidden names */
#endif
#ifdef __cplusplus
extern "C" {
#endif

#define CORALE_VERSION_MAJOR 0
#define CORALE_VERSION_MINOR 1
#define CORALE_VERSION_PATCH 0
#define CORALE_VERSION (CORALE_VERSION_MAJOR * 10000 + CORALE_VERSION_MINOR * 100 + CORALE_VERSION_PATCH)

/* The library's version at run time, as CORALE_VERSION encodes it. Any thread. */
int corale_version(void);

/* ---- Errors ---------------------------------------------------------------- */

enum {
	CORALE_OK = 0,
	CORALE_EINVAL = -1, /* an argument is wrong; nothing was started */
	CORALE_ENOMEM = -2, /* memory, or a stated memory cap, is exhausted */
	CORALE_ESYSTEM = -3, /* a system call failed; the log has errno */
	CORALE_ENOTSUP = -4, /* valid, but this build or combination does not offer it */
	CORALE_EMISMATCH = -5, /* ranks made different calls; the communicator is done for */
	CORALE_ETIMEDOUT = -6, /* a peer did not come before the deadline */
	CORALE_EPEER = -7, /* a peer died, left, or its link failed */
	CORALE_EABORTED = -8, /* corale_comm_abort was called here or on another rank */
	CORALE_ECOMM = -9, /* the communicator failed earlier; see corale_comm_last_error */
	CORALE_ETRANSPORT = -10, /* the network library reported an error */
	CORALE_EDEVICE = -11, /* the CUDA driver or runtime reported an error */
	CORALE_ESETTING = -12, /* a setting is malformed, or differs between ranks */
	CORALE_EINTERNAL = -13, /* a bug in Corale: please report it */
	CORALE_INPROGRESS = 1 /* query functions only: not yet complete */
};

/* A constant English text for a code, never NULL. Any thread. */
const char *corale_strerror(int code);

/* ---- Types and operators --------------------------------------------------- */

typedef enum {
	CORALE_INT8 = 0,
	CORALE_UINT8 = 1,
	CORALE_INT32 = 2,
	CORALE_UINT32 = 3,
	CORALE_INT64 = 4,
	CORALE_UINT64 = 5,
	CORALE_FLOAT16 = 6,
	CORALE_BFLOAT16 = 7,
	CORALE_FLOAT32 = 8,
	CORALE_FLOAT64 = 9,
	CORALE_FLOAT8_E4M3 = 10,
	CORALE_FLOAT8_E5M2 = 11,
	CORALE_NUM_TYPES = 12
} corale_type;

/*
 * Operators. Results are the same bits on every rank. 16-bit and 8-bit floats are
 * summed in float32. Integers wrap; avg of integers truncates toward zero; float8
 * saturates; min and max keep NaN and hold -0 < +0; every NaN that an operator
 * makes is the canonical one of its type. Complex types and operators written by
 * the user are refused (CORALE_EINVAL): there is no kernel for them on a GPU.
 */
typedef int corale_op;
enum {
	CORALE_SUM = 0,
	CORALE_PROD = 1,
	CORALE_MIN = 2,
	CORALE_MAX = 3,
	CORALE_AVG = 4,
	CORALE_NUM_OPS = 5 /* values from here on: corale_op_create_premul_sum */
};

typedef struct corale_comm corale_comm;
typedef struct corale_stream corale_stream;
typedef struct corale_plan corale_plan;

/*
 * An operator that multiplies each rank's elements by that rank's scalar, rounds
 * to the type, then sums. scalar: one element of type, read now (host memory).
 * The operator is valid for comm and type only; collective in effect (every rank
 * creates its own, in the same order), but no communication happens. A call takes the
 * scalar when it is made, a plan when it is created: the operator may be destroyed as soon
 * as that has returned, also where the call waits on a stream, in a graph or in a group.
 */
int corale_op_create_premul_sum(const void *scalar, corale_type type, corale_comm *comm, corale_op *op);
int corale_op_destroy(corale_op op, corale_comm *comm);

/* Bytes of one element; 0 for an invalid type. Names never NULL. Any thread. */
size_t corale_type_bytes(corale_type type);
const char *corale_type_name(corale_type type);
const char *corale_op_name(corale_op op);

/* ---- Communicators --------------------------------------------------------- */

/*
 * Configuration of one communicator. Set size = sizeof(corale_config) first, or use
 * corale_config_init; zero in any other field means the setting's own default.
 * All ranks pass equal values: a difference is an error that names the field.
 */
typedef struct corale_config {
	size_t size; /* sizeof(corale_config) as the caller was compiled */
	double timeout_seconds; /* deadline of every wait; 0: CORALE_TIMEOUT; < 0: none */
	size_t memory_cap; /* bytes of windows, scratch and staging of a rank; 0: CORALE_MEMORY_CAP */
	int max_channels; /* threads of one call, or blocks on a GPU (sends, receives and all_to_all_v: one for each
			     peer and direction at least); 0: CORALE_MAX_CHANNELS, CORALE_MAX_CTAS */
	int device; /* CORALE_DEVICE_* below */
	int cta_policy; /* CORALE_CTA_POLICY_* below */
} corale_config;

enum {
	CORALE_DEVICE_DEFAULT = 0, /* host */
	CORALE_DEVICE_HOST = 1,
	CORALE_DEVICE_CUDA = 2 /* the calling thread's current GPU; up to 72 ranks a node; any memory */
};

/*
 * CUDA communicators over several nodes: every collective, sends and receives, groups and graphs, as on one node. Messages between nodes go
 * through pinned host memory, at most 64 MiB of it a rank and communicator (CORALE_PINNED_MEMORY), so buffers that are registered bring nothing there yet. A kernel that
 * waits needs someone who moves messages meanwhile: threads of the process, for all its communicators, the proxy (CORALE_RAILS). They use UCX, or memory where all
 * ranks are threads of one process, or MPI point-to-point, if that gives MPI_THREAD_MULTIPLE (else CORALE_ENOTSUP at creation). They may run on any
 * processor that the process may use, sleep while no call is under way, and once a call was captured, whose graph may be
 * replayed at any time, one looks every 180 us instead. Give it a core: mpirun --bind-to none. docs/clusters.md has the rest.
 */

/*
 * How many blocks (CTAs) a CUDA communicator's calls take from what else runs on the GPU. Where max_channels or
 * CORALE_MAX_CTAS is given, that is the limit instead, whatever the policy. A communicator that is split off has its
 * parent's policy. Host communicators have no blocks: the field is checked and compared there, too, but changes nothing.
 */
enum {
	CORALE_CTA_POLICY_DEFAULT = 0, /* CORALE_CTA_POLICY: auto, unless the environment says otherwise */
	CORALE_CTA_POLICY_AUTO =
	    1, /* for calls that nothing runs beside: large ones take all of the GPU but one processor of 32 */
	CORALE_CTA_POLICY_EFFICIENT =
	    2, /* for calls beside computing, such as gradients averaged during the backward pass:
			     kernels of at most 4 blocks. The price, where nothing runs beside them: calls from about 100 KB on
			     take longer, those of some MB several times as long, large sums about twice as long */
	CORALE_CTA_POLICY_ZERO =
	    3 /* for all_gather, all_to_all and broadcast into registered memory beside computing: copy
			     engines move the data instead of blocks. The price: small ones take longer. All other calls are
			     as with auto */
};

void corale_config_init(corale_config *config);

/*
 * The one thing that Corale needs from whoever starts the ranks: an all-gather of
 * small host data. allgather(ctx, in, bytes, out) collects bytes from each rank into
 * out (size * bytes, in rank order), returns 0 or non-zero on failure, and is called
 * in corale_comm_create, corale_comm_split, corale_mem_* and corale_comm_destroy only,
 * from the calling thread.
 */
typedef struct corale_bootstrap {
	int rank, size;
	void *ctx;
	int (*allgather)(void *ctx, const void *in, size_t bytes, void *out);
} corale_bootstrap;

/*
 * A new communicator over the ranks of a bootstrap. Collective; blocks. The bootstrap
 * struct is copied; its ctx must live until corale_comm_destroy has returned.
 * config may be NULL. On failure every rank returns an error.
 */
int corale_comm_create(const corale_bootstrap *bootstrap, const corale_config *config, corale_comm **comm);

/*
 * Ranks as threads of one process, for tests and for embedding. A group of n is made
 * once; then n threads call corale_comm_create_inproc with ranks 0 .. n-1.
 * The group may be destroyed when all its communicators are.
 */
typedef struct corale_inproc corale_inproc;
int corale_inproc_create(int n, corale_inproc **group);
void corale_inproc_destroy(corale_inproc *group);
int corale_comm_create_inproc(corale_inproc *group, int rank, const corale_config *config,
			      corale_comm **comm);

/*
 * Splits comm: ranks of equal color (>= 0) form a new communicator, ordered by key, then
 * by rank; color < 0 takes part and gets *out = NULL. Collective over comm; blocks.
 */
int corale_comm_split(corale_comm *comm, int color, int key, corale_comm **out);

/*
 * Frees a communicator: collective in order but it waits for no peer beyond the calls
 * already made. Calls in flight are completed first; after an error or abort they are
 * dropped; a failure that nobody has seen is logged. A CUDA communicator's waits until the whole GPU is idle, so also for calls of
 * other communicators of this process; it may come while any thread captures, and leaves that capture whole. If one of its
 * calls was ever captured, a graph may name its GPU memory, which then
 * stays for the life of the process; a replay of such a graph ends at once. Memory that peers' GPUs map is the caller's own
 * again when it returns: whatever happened before, no peer stores there any more. If some is still registered or allocated, each
 * peer's process is asked and answers within about 30 ms, after a failure when its GPU is idle; one that has not after 2 s
 * is named in a WARN line, as it may still write. destroy(NULL) does nothing.
 */
void corale_comm_destroy(corale_comm *comm);

/* Ends all calls of comm on every rank that can still be reached; they return
 * CORALE_EABORTED. Any thread, beside corale_comm_destroy too; never blocks; idempotent. */
int corale_comm_abort(corale_comm *comm);

int corale_comm_rank(const corale_comm *comm);
int corale_comm_size(const corale_comm *comm);
int corale_comm_node(const corale_comm *comm); /* index of this rank's node */
int corale_comm_nodes(const corale_comm *comm); /* number of nodes */
int corale_comm_local_rank(const corale_comm *comm); /* index within the node */
/*
 * Bytes of windows, scratch and plans of this rank. A new CUDA communicator of up to 8 ranks takes at most 64 MiB: 62 MiB of
 * its GPU (CORALE_GPU_WINDOW, or memory_cap if that is less), the rest host memory; over several nodes up to 64 MiB of pinned host memory too (CORALE_PINNED_MEMORY). Its first large call (of about 2 MB to
 * each peer, or more) adds scratch on the GPU, within memory_cap and at most 256 MiB a peer. The ranks share it, so that call alone waits on the host until all
 * ranks have made it; make one on every communicator before you count on calls that return at once. CUDA itself takes memory
 * of a process's first communicator for the kernels, and of the GPU for every process.
 */
size_t corale_comm_memory(const corale_comm *comm);

/* The last error line logged for comm, "" when there was none; valid until the next
 * call on comm. */
const char *corale_comm_last_error(const corale_comm *comm);
/* 0 while comm works, else the code that ended it: CORALE_EDEVICE also where the GPU's context is lost by a bad kernel of the
 * program's, which so is told to all ranks. Any thread; waits for no call, but the first one after a
 * failure takes up to half a second to gather what the ranks have called. */
int corale_comm_async_error(const corale_comm *comm);

/* ---- Host streams ---------------------------------------------------------- */

/*
 * A queue of calls that run in order, beside the caller. One stream may serve several
 * communicators; calls on one communicator run in the order in which they were made,
 * whatever their streams. With MPI as the transport and less than MPI_THREAD_MULTIPLE a
 * stream's calls advance inside corale_stream_synchronize and corale_stream_query only
 * (corale_mpi.h says in which threads).
 */
int corale_stream_create(corale_stream **stream);
/* Blocks until every call made so far is complete; returns the first error since the
 * last synchronize, or 0. */
int corale_stream_synchronize(corale_stream *stream);
/* 0 when idle, CORALE_INPROGRESS, or the first error. Never blocks. */
int corale_stream_query(corale_stream *stream);
/* Synchronizes, then frees. destroy(NULL) does nothing. */
void corale_stream_destroy(corale_stream *stream);

/* ---- Collectives ----------------------------------------------------------- */

/*
 * Buffers of a CUDA communicator's calls, the cheapest kinds first; each rank and buffer may be of another kind:
 * - memory of the communicator's GPU (cudaMalloc, cudaMallocAsync, cuMemMap, corale_mem_alloc): used where it is. That of another
 *   GPU is refused (CORALE_EINVAL).
 * - pinned host memory (cudaMallocHost, cudaHostRegister) and managed memory: used where it is, at the speed of the bus
 *   to the host; every call asks the driver what the buffer is, which takes it less than a microsecond.
 * - ordinary host memory: GPU memory of the same size is allocated for the call, on its stream, and what is sent or
 *   received is copied. Such a call may block until the stream's earlier work is done; if it receives into ordinary
 *   memory it returns when it is complete, so it has waited for its peers. CORALE_ENOTSUP while the stream is captured:
 *   a graph would not copy again.
 */

/* recv[i] = op over all ranks of send[i], on every rank. In place: send == recv.
 * Cost over n ranks: between 1 step of (n-1) count elements sent (one-shot) and
 * 2(n-1) steps of 2 count (n-1)/n elements sent (ring); corale-plan prints which. */
int corale_all_reduce(const void *send, void *recv, size_t count, corale_type type, corale_op op,
		      corale_comm *comm, void *stream);

/* recv[r * count + i] = rank r's send[i]. send: count elements; recv: size * count.
 * In place: send == recv + rank * count. Sends (n-1) count elements. */
int corale_all_gather(const void *send, void *recv, size_t count, corale_type type, corale_comm *comm,
		      void *stream);

/* recv[i] = op over all ranks of send[rank * count + i]. send: size * count elements;
 * recv: count. In place: recv == send + rank * count. Sends (n-1) count elements. */
int corale_reduce_scatter(const void *send, void *recv, size_t count, corale_type type, corale_op op,
			  corale_comm *comm, void *stream);

/* recv[i] = root's send[i] on every rank. send is read at root only (may be NULL
 * elsewhere). In place: send == recv. */
int corale_broadcast(const void *send, void *recv, size_t count, corale_type type, int root,
		     corale_comm *comm, void *stream);

/*
 * At the root recv[i] = op over all ranks of send[i]. Both: count elements; recv is written at the root only (may be
 * NULL elsewhere). In place at the root: send == recv. A rank that is not the root may return before others have begun
 * (what it sent is kept for them), so a call that differs elsewhere may be told by its next call only.
 * On a CUDA communicator every rank's part of it ends when all ranks have begun.
 * Cost over n ranks: between 1 step of count elements sent to the root (one-shot), log2(n) steps of as many (binomial
 * tree), 2 steps of at most count elements from each (reduce-scatter, then the parts to the root: Rabenseifner 2004) and a
 * chain of n-1 steps for what is large; over several nodes each one's sum crosses once, along a tree or a chain.
 */
int corale_reduce(const void *send, void *recv, size_t count, corale_type type, corale_op op, int root,
		  corale_comm *comm, void *stream);

/* At the root recv[r * count + i] = rank r's send[i]. send: count elements; recv: size * count, written at the root only
 * (may be NULL elsewhere). In place at the root: send == recv + root * count. Returns and differs as
 * reduce. 1 step: each rank sends count elements straight to the root, which receives (n-1) count. */
int corale_gather(const void *send, void *recv, size_t count, corale_type type, int root, corale_comm *comm,
		  void *stream);

/* recv[i] = the root's send[rank * count + i]. send: size * count elements, read at the root only (may be NULL elsewhere);
 * recv: count. In place at the root: recv == send + root * count.
 * 1 step: the root sends (n-1) count elements, a block straight to each rank. */
int corale_scatter(const void *send, void *recv, size_t count, corale_type type, int root, corale_comm *comm,
		   void *stream);

/* recv[r * count + i] = rank r's send[rank * count + i]. Both: size * count elements.
 * In place is refused (CORALE_EINVAL). */
int corale_all_to_all(const void *send, void *recv, size_t count, corale_type type, corale_comm *comm,
		      void *stream);

/* As all_to_all with a count and an offset (displacement, in elements) per peer; arrays of size
 * entries, read before the call returns. Counts may be zero; the counts of a pair agree on both ends,
 * else CORALE_EMISMATCH on both (a rank's own two: CORALE_EINVAL). */
int corale_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_displs, void *recv,
			const size_t *recv_counts, const size_t *recv_displs, corale_type type,
			corale_comm *comm, void *stream);

/*
 * Point to point. The k-th send from a to b meets the k-th recv of b from a; count and
 * type agree on both ends, else CORALE_EMISMATCH on both (a sender whose short message was buffered learns of it by its
 * next call).
 * peer may be the caller's own rank inside a group.
 * A blocking send outside a group may wait for its recv: use a group to exchange.
 * On a CUDA communicator a send ends on its stream when its buffer is free again: of a short message perhaps before its
 * recv has begun; of a longer one only after that, perhaps before it has ended.
 */
int corale_send(const void *send, size_t count, corale_type type, int peer, corale_comm *comm, void *stream);
int corale_recv(void *recv, size_t count, corale_type type, int peer, corale_comm *comm, void *stream);

/* Returns (on the stream) when every rank has entered. */
int corale_barrier(corale_comm *comm, void *stream);

/*
 * Calls between begin and end of one thread are checked when made and started together at
 * the end: send/recv in any order cannot deadlock. With NULL streams the end blocks.
 * Groups nest; the outermost end acts. If a call inside was refused, end starts nothing
 * and returns that error. Fusing never changes bits.
 * Host communicators: all calls without a stream, or on one stream, advance together, whatever
 * their communicators; only the collectives of one communicator follow each other as made. So
 * other ranks may make the same calls in a group or one by one, in any order of communicators, and
 * their sends and receives before or behind their collectives. A communicator's
 * sends and receives, and the collectives beside them, are on one host stream (else CORALE_ENOTSUP).
 * CUDA communicators, one after the other in an order that all their ranks share: all sends and receives
 * start together, when all work before them on any of their streams is done, and what is enqueued on these later
 * waits for all of them; at most 160 of them; collectives follow as made. All ranks of these group alike.
 */
int corale_group_begin(void);
int corale_group_end(void);

/* ---- Memory ---------------------------------------------------------------- */

/*
 * Memory that peers can map, for use in place without staging. Collective and blocking: every rank calls in the same order
 * (bytes may differ; the least of all ranks' counts). Free with corale_mem_free, also collective; after the communicator was
 * destroyed with that same handle, by each rank alone.
 *
 * On a CUDA communicator the memory is of the GPU, and large calls whose receive buffers lie in it store straight into them.
 * So in one call every rank passes the same registration (or allocation) at the same offset as receive buffer, or none
 * passes registered memory; else the call may end with CORALE_EMISMATCH, which names both. The root of a broadcast has a
 * receive buffer, too. Send buffers need nothing. A recv is free in this: its buffer may be registered or not, at any offset.
 * After a failed call the registered memory of the communicator may hold anything, until it is given up: when corale_mem_free,
 * corale_mem_deregister or corale_comm_destroy has returned, no peer stores there (corale_comm_destroy says how). Where one that can't
 * answer may still do so, corale_mem_free gives nothing back. GPU memory is made in units of 2 MB.
 *
 * All ranks give up the same registration, or none does (CORALE_EINVAL).
 * Free and deregister only when every call that uses the memory has completed on this rank's stream, and no graph that
 * holds such a call will run again. Not while a stream is being captured. Both wait for all that the GPU has to do.
 */
int corale_mem_alloc(corale_comm *comm, size_t bytes, void **buffer);
int corale_mem_free(corale_comm *comm, void *buffer);
/*
 * The same for memory that the caller owns. Deregister before you free it (CORALE_CHECK_MEMORY=yes finds where that was
 * forgotten). Any memory can be registered, but only cudaMalloc's and what cuMemCreate made for file descriptors can be mapped
 * (a buffer in one cuMemMap's range); where one rank's can't, the registration changes nothing on any rank (CORALE_DEBUG=info
 * says why), as if the memory were not registered. Copy engines store faster into corale_mem_alloc's than into cudaMalloc's.
 */
int corale_mem_register(corale_comm *comm, void *buffer, size_t bytes, void **handle);
int corale_mem_deregister(corale_comm *comm, void *handle);

/* ---- Persistent plans ------------------------------------------------------ */

typedef enum {
	CORALE_ALL_REDUCE = 0,
	CORALE_ALL_GATHER = 1,
	CORALE_REDUCE_SCATTER = 2,
	CORALE_BROADCAST = 3,
	CORALE_ALL_TO_ALL = 4,
	CORALE_ALL_TO_ALL_V = 5,
	CORALE_SEND = 6,
	CORALE_RECV = 7,
	CORALE_BARRIER = 8,
	CORALE_REDUCE = 9,
	CORALE_GATHER = 10,
	CORALE_SCATTER = 11,
	CORALE_NUM_COLLS = 12
} corale_coll;

/*
 * The plan of one call without its buffers. Local, no communication. op and root are
 * ignored where the collective has none. Collectives with one count only (not
 * all_to_all_v, send, recv: CORALE_ENOTSUP). Arguments are checked as the collective's
 * (CORALE_EINVAL). A plan may be destroyed while runs of it wait on a stream or in a group.
 */
int corale_plan_create(corale_coll coll, size_t count, corale_type type, corale_op op, int root,
		       corale_comm *comm, corale_plan **plan);
/* Runs it as the collective itself would run. */
int corale_plan_run(corale_plan *plan, const void *send, void *recv, void *stream);
void corale_plan_destroy(corale_plan *plan);
const char *corale_coll_name(corale_coll coll);

#ifdef __cplusplus
}
#endif
#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#endif
