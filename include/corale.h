/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Corale: collectives on host and GPU memory, layered on MPI.
 *
 * This header is the manual. It needs only a C99 or C++11 compiler.
 * corale_mpi.h makes communicators from an MPI_Comm.
 *
 * Conventions of all functions:
 * - Errors: every function that can fail returns 0 or a negative CORALE_E* code. Results come through the last
 *   pointer arguments and are written only on success.
 * - Units: count is in elements of the call's type, never in bytes. Other sizes say "bytes".
 * - Threads: one thread at a time uses a communicator. Different communicators may be used by different threads at
 *   once. corale_comm_abort and corale_comm_async_error may come from any thread at any time.
 * - Matching: all ranks of a communicator make the same collective calls in the same order, with the same count, type,
 *   operator and root. A call that differs is found before an element of it is reduced: every rank that needs a message of the
 *   rank that differs returns CORALE_EMISMATCH, and the log has both calls. A rank that needs none, such as the root of a broadcast,
 *   may return 0; its next call, or the log of corale_comm_destroy, tells it.
 * - After CORALE_EMISMATCH the receive buffer holds what it held before the call, except for the rank's own data (its
 *   block, or what a root sends). Collectives that only move data (all_gather, all_to_all, all_to_all_v, broadcast, gather,
 *   scatter) may also have received blocks of ranks whose call agrees with this rank's, and all_reduce over nodes of several
 *   ranks may hold sums over the ranks of a node. On GPUs some receive buffers are
 *   undefined instead: those of all_gather, all_to_all, broadcast and all_reduce of a few MB and more, in memory of
 *   corale_mem_alloc or cuMemCreate, because peers map such buffers and their copy engines store into them.
 * - Refused calls: a call that has started nothing (CORALE_EINVAL, CORALE_ENOTSUP, no memory or no thread) takes its place among
 *   the communicator's calls all the same. If all ranks refuse the same collective there, the communicator goes on. If some do, the others'
 *   call of that place ends with CORALE_EMISMATCH within a second, and the log has the rank, the call and the argument, also if the rank that
 *   refused it calls nothing more. (A rank that needs no message of that one finds it as under Matching.)
 *   A refused send or receive, also one to the rank itself, takes such a place too: the communicator goes on if all ranks refuse one there. Else
 *   sends and receives with that rank, and the next collective, end with CORALE_EMISMATCH. On a CUDA communicator a refused send to or
 *   receive from another rank ends the communicator at once. What names no communicator (NULL, or a destroyed one) has no place; nor has
 *   corale_plan_create. For groups see corale_group_begin.
 * - fork: a process may fork after it has made a communicator, or tried to, and go on to use Corale. The child can't use
 *   Corale: every call is refused with an error that says so. A child that calls exec may use it again.
 * - Descriptors: those of the library and of UCX are closed by exec, given up by a forked child, and never 0, 1 or 2. When a communicator is created and a standard stream is closed, its
 *   descriptor is occupied for the life of the process: reading and writing still fail (EBADF), and exec closes it. A log line that can't be written is lost.
 * - stream: a corale_stream for host communicators, a cudaStream_t for CUDA communicators. NULL means a blocking call
 *   on a host communicator, and an asynchronous call on the default stream on a CUDA communicator.
 * - Handles of communicators, corale_stream and plans that are none, or were destroyed, are CORALE_EINVAL. CUDA says nothing about
 *   a wrong cudaStream_t.
 * - In place: send == recv, or as the function says. Send and receive buffers must not overlap otherwise. MPI_IN_PLACE is no buffer:
 *   it is refused (CORALE_EINVAL).
 * - Ownership: buffers belong to the caller. They must stay valid until the call has completed on its stream.
 * - Calls on one CUDA communicator run in the order in which they were made, whatever
 *   their streams. A stream may be destroyed as soon as the call has returned; work on it goes on.
 * - Graphs: the caller orders replays of graphs against each other and against calls outside of graphs, in the same
 *   order on all ranks. Within one capture, calls on cudaStreamPerThread of several threads are refused
 *   (CORALE_ENOTSUP). A call that is refused leaves the capture as it was.
 * - Current GPU: calls on a CUDA communicator run on its GPU, whichever GPU is current in the calling thread, and in the CUDA context that was current when it
 *   was made. Memory of that GPU that was allocated in another context and is out of its reach is refused (CORALE_EINVAL).
 * - Several CUDA communicators on several streams: a large call holds SMs while it waits for peers. So each communicator of a
 *   process has blocks of its own on its GPU: max_channels below says how many, and what is left to later ones. A GPU takes the
 *   streams of a process through 8 queues, and of two streams in one queue one may wait for the other's calls: with more than 8
 *   streams at work set CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts.
 * - Stack: all functions work in a thread with 48 KB of stack. With UCX or CUDA below them that is theirs to keep; UCX 1.13 does.
 * - Log: the first function that knows the cause of an error logs one line. corale_comm_last_error returns that line.
 *
 * How a program learns of a failure:
 * - Calls on host communicators return the error.
 * - A call on a CUDA stream has returned 0 before it runs. So after synchronizing the stream, ask:
 *   if (corale_comm_async_error(comm)) { ... }
 * - The first communicator of a process starts one watch thread. About thirty times a second it looks for kernels that
 *   failed, in graphs too, and for processes of this node that died or called exit() without corale_comm_destroy. It
 *   logs the failure and tells all ranks within 0.1 s, whatever the program does meanwhile. Calls in progress, on
 *   streams too, then end with an error. CORALE_EPEER names the dead rank and its process.
 * - With MPI as the transport, below MPI_THREAD_MULTIPLE, other nodes are told by this rank's next call.
 * - Between nodes: when no message has come for two seconds, each rank that waits logs one WARN line. It names the rank
 *   that is waited for, and says whether that rank's process answers. The call goes on.
 * - After a failure every later kernel of the communicator, replays of its graphs included, ends at once and stores
 *   nothing in receive buffers.
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
	CORALE_EMISMATCH = -5, /* ranks made different calls; the communicator can't be used any more */
	CORALE_ETIMEDOUT = -6, /* a call made no progress until the deadline: a peer is missing */
	CORALE_EPEER = -7, /* a peer died, left, or its link failed */
	CORALE_EABORTED = -8, /* corale_comm_abort, or a destroy beside a call, here or on another rank */
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

/* Programs hold these values, so new types are appended. Collectives that only move data, sends and receives take every type. */
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
	CORALE_INT16 = 12,
	CORALE_UINT16 = 13,
	CORALE_BOOL = 14, /* 1 byte: 0, or 1 for true */
	CORALE_COMPLEX64 = 15, /* two float32: real and imaginary part */
	CORALE_COMPLEX128 = 16, /* two float64 */
	/* A value and an index, as C lays them out: { value; int32_t index; }. MPI's name is behind each. */
	CORALE_PAIR_FLOAT32 = 17, /* 8 bytes: MPI_FLOAT_INT */
	CORALE_PAIR_FLOAT64 = 18, /* 16 bytes, of which the last 4 are a gap: MPI_DOUBLE_INT */
	CORALE_PAIR_INT64 = 19, /* 16 bytes, of which the last 4 are a gap: MPI_LONG_INT */
	CORALE_PAIR_INT32 = 20, /* 8 bytes: MPI_2INT */
	CORALE_PAIR_INT16 = 21, /* 8 bytes, of which bytes 2 and 3 are a gap: MPI_SHORT_INT */
	CORALE_NUM_TYPES = 22
} corale_type;

/*
 * Operators:
 * - Results are the same bits on every rank. Rounding modes, flush-to-zero and traps of the calling threads (fesetround, -ffast-math) change nothing: hosts
 *   fold in the default floating-point environment, and give the thread its own back.
 * - 16-bit and 8-bit floats are summed in float32.
 * - Integers wrap. The average of integers is the wrapped sum / ranks, truncated toward zero: of int8 127 and 127 it is -1. float8 saturates.
 * - min and max keep NaN, and order -0 < +0. Every NaN that an operator makes is the canonical NaN of its type.
 * - Not every type has every operator; a call with another one is refused (CORALE_EINVAL), with a line that names both:
 *     integers                      sum prod min max avg, bitwise, logical; premultiplied sum
 *     float16 to float64, float8    sum prod min max avg; premultiplied sum
 *     bool                          bitwise, logical
 *     complex64, complex128         sum prod avg
 *     pairs                         min_loc max_loc
 * - Logical operators take any element but 0 as true, and make 0 or 1. With one rank its elements stay as they are.
 * - Complex products are (ac - bd) + (ad + bc)i, each part rounded after each operation; infinities are not recovered as C's Annex G has it.
 * - min_loc and max_loc give the pair with the least (largest) value; of equal values, be they zeros of two signs, the one with the smallest index. A NaN
 *   wins over numbers. Gaps of a result are 0 where there are two ranks or more; with one rank, and in collectives that move data, they are those of the source.
 * - On CUDA communicators bitwise and logical operators, products of complex numbers, and pairs have one simple kernel: large calls are slower than sums.
 * - Operators written by the user are refused (CORALE_EINVAL).
 */
typedef int corale_op;
enum {
	CORALE_SUM = 0,
	CORALE_PROD = 1,
	CORALE_MIN = 2,
	CORALE_MAX = 3,
	CORALE_AVG = 4,
	CORALE_BIT_AND = 5,
	CORALE_BIT_OR = 6,
	CORALE_BIT_XOR = 7,
	CORALE_LOGICAL_AND = 8,
	CORALE_LOGICAL_OR = 9,
	CORALE_LOGICAL_XOR = 10,
	CORALE_MIN_LOC = 11,
	CORALE_MAX_LOC = 12,
	CORALE_NUM_OPS = 13 /* values from here on: corale_op_create_premul_sum */
};

typedef struct corale_comm corale_comm;
typedef struct corale_stream corale_stream;
typedef struct corale_plan corale_plan;

/*
 * Creates an operator that multiplies each rank's elements by that rank's scalar, rounds to the type, then sums.
 * scalar: one element of type in host memory, read before the function returns.
 *
 * The operator is valid for this comm and type only: a call of another communicator is refused (CORALE_EINVAL), and so is one with
 * an operator that was destroyed. Every rank creates its own, in the same order, but the function
 * does not communicate. A call reads the operator when it is made, a plan when it is created. So the operator may be
 * destroyed as soon as that function has returned, even if the call still waits on a stream, in a graph or in a group.
 */
int corale_op_create_premul_sum(const void *scalar, corale_type type, corale_comm *comm, corale_op *op);
/*
 * The same, with the scalar in memory of the GPU: for CUDA communicators, where a kernel before the call computes it.
 * scalar: one element of type, aligned to its size, in memory that kernels of the communicator's GPU can read (also managed or
 * pinned memory). It stays the caller's. The kernel of each call reads it when it runs, in the order of the stream, and so
 * does each replay of a captured graph. So it must stay valid, and unchanged, until the calls with the operator have ended, and the
 * graphs that hold them are destroyed; corale_op_destroy does not wait for them.
 * Each rank chooses for itself where its scalar is: some may use this function, others corale_op_create_premul_sum.
 * CORALE_EINVAL: a host communicator; a scalar that is not aligned; from calls: a scalar in ordinary host memory or on another GPU.
 */
int corale_op_create_premul_sum_device(const void *scalar, corale_type type, corale_comm *comm,
				       corale_op *op);
int corale_op_destroy(corale_op op, corale_comm *comm);

/* Bytes of one element; 0 for an invalid type. Names are never NULL. Any thread. */
size_t corale_type_bytes(corale_type type);
const char *corale_type_name(corale_type type);
const char *corale_op_name(corale_op op);

/* ---- Communicators --------------------------------------------------------- */

/*
 * Configuration of one communicator. Call corale_config_init first, or set size = sizeof(corale_config) and all other
 * fields to 0. Zero in a field means the default of the setting that is named beside it. All ranks pass equal values:
 * if a field differs, creation fails with an error that names the field.
 */
typedef struct corale_config {
	size_t size; /* sizeof(corale_config) as the caller was compiled */
	double timeout_seconds; /* deadline of every wait, up to 1e9; 0: CORALE_TIMEOUT; < 0: no deadline */
	size_t
	    memory_cap; /* most bytes of windows, scratch and staging of this rank; 0: CORALE_MEMORY_CAP. Programs of many communicators give them small ones: on
			      hosts 2 MiB (windows of half of it, instead of 8 MiB and more for each rank of the node), on CUDA communicators 1 MiB more than
			      there are ranks on the node, which leaves no room for scratch. Large calls are slower there */
	int max_channels; /* most threads of one call, or most blocks of one kernel on a GPU; 0: CORALE_MAX_CHANNELS,
			     CORALE_MAX_CTAS. Beside other communicators it may have fewer blocks, see below. Sends, receives and
			     all_to_all_v use at least one block per peer and direction, whatever the limit */
	int device; /* CORALE_DEVICE_* below */
	int cta_policy; /* CORALE_CTA_POLICY_* below */
} corale_config;

enum {
	CORALE_DEVICE_DEFAULT = 0, /* host */
	CORALE_DEVICE_HOST = 1,
	CORALE_DEVICE_CUDA = 2 /* the calling thread's current GPU; any memory; up to 72 ranks per node */
};

/*
 * CUDA communicators over several nodes offer the same as on one node: every collective, sends and receives, groups and
 * graphs.
 * - Messages between nodes go through pinned host memory: at most 64 MiB per rank and communicator
 *   (CORALE_PINNED_MEMORY). Registered buffers do not make them faster.
 * - Proxy threads of the process (CORALE_RAILS) carry the messages of all its communicators while kernels wait. They may
 *   run on any processor that the process may use. Leave them one: mpirun --bind-to none.
 * - Proxy threads use UCX; shared memory if all ranks are threads of one process; or MPI point-to-point, which requires
 *   MPI_THREAD_MULTIPLE (else creation fails with CORALE_ENOTSUP).
 * - Proxy threads sleep while no call is in progress. Once a call was captured, its graph may be replayed at any time,
 *   so from then on one proxy thread looks for work every 180 us.
 * docs/clusters.md has the rest.
 */

/*
 * How many blocks (CTAs) the calls of a CUDA communicator take from other work on the GPU. If max_channels or
 * CORALE_MAX_CTAS is given, that is the limit instead, whatever the policy. A communicator made by corale_comm_split has
 * its parent's policy. On host communicators the field is checked and compared between ranks, but has no effect.
 */
enum {
	CORALE_CTA_POLICY_DEFAULT = 0, /* CORALE_CTA_POLICY: auto, unless the environment says otherwise */
	CORALE_CTA_POLICY_AUTO =
	    1, /* for calls that run alone: large calls use all of the GPU but one SM of 32 */
	CORALE_CTA_POLICY_EFFICIENT =
	    2, /* for calls beside computation, such as gradients averaged during the backward pass: kernels use at
			     most 4 blocks. Where nothing runs beside them, calls from about 100 KB on are slower: several
			     times at a few MB, about twice for large sums */
	CORALE_CTA_POLICY_ZERO =
	    3 /* for all_gather, all_to_all and broadcast into registered memory beside computation: copy engines move
			     the data instead of blocks. Small calls are slower. All other calls run as with auto */
};

/*
 * Several CUDA communicators of a process on one GPU: their calls may run at one time, on several streams, and a kernel that waits for its peers keeps its
 * SMs. So all their blocks must fit on the GPU, and a communicator's number of blocks is settled when it is created:
 * - With a limit (max_channels, CORALE_MAX_CTAS, CORALE_CTA_POLICY_EFFICIENT) it has as many as that, but leaves room for eight communicators in all:
 *   for each further one, as many SMs as a node has ranks. So of 132 SMs, of which 4 stay free, and with 4 ranks, four communicators with a limit of 32 have
 *   32, 32, 32 and 16 blocks, later ones 4; eight with a limit of 16 have 16 each. With up to eight communicators, on nodes of up to 16 ranks, calls never wait for each other for ever,
 *   in whatever order each rank makes them.
 * - Without a limit each has the whole GPU, as if it were alone: large calls of two such communicators at one time may wait for each other for ever, which a
 *   WARN line says when the second one is created. Programs whose communicators work at one time set a limit; where they take turns, none is needed.
 * - Ranks agree on the least that any of them can have. What a communicator had is free again when it is destroyed.
 * - Of one process: under MPS, where kernels of several processes share a GPU, each process counts its own.
 * The first communicator that has fewer blocks than it asks for says so in a WARN line, with the limit that gives all of them as many; so does the first one
 * that has no room.
 */

void corale_config_init(corale_config *config);

/*
 * What Corale needs from the program that starts the ranks: its rank, the number of ranks, and an all-gather of small
 * host data. allgather(ctx, in, bytes, out) collects bytes from each rank into out (size * bytes, in rank order). It
 * returns 0, or non-zero on failure: the creation ends on this rank, without a further all-gather, with CORALE_EPEER, or, where the value is a code of
 * Corale's other than CORALE_EINVAL, with that code. One that returns 0 without the bytes that each rank gave to this very all-gather is such a failure, too. Corale calls it
 * only from the thread that calls, in corale_comm_create. Corale can't interrupt it: where a rank may end meanwhile, the
 * all-gather must notice that itself and return non-zero.
 */
typedef struct corale_bootstrap {
	int rank, size;
	void *ctx;
	int (*allgather)(void *ctx, const void *in, size_t bytes, void *out);
} corale_bootstrap;

/*
 * Makes a communicator over the ranks of a bootstrap. Collective; blocks. config may be NULL.
 * The bootstrap struct is copied. Its ctx must live until corale_comm_destroy has returned.
 * If creation fails on one rank, it returns an error on every rank.
 */
int corale_comm_create(const corale_bootstrap *bootstrap, const corale_config *config, corale_comm **comm);

/*
 * Ranks as threads of one process, for tests and for embedding. One thread makes a group of n ranks. Then n threads call
 * corale_comm_create_inproc, with ranks 0 .. n-1. Destroy the group after all its communicators.
 * A rank waits for the others as long as a call would (timeout_seconds, CORALE_TIMEOUT); then all get CORALE_ETIMEDOUT, and the group
 * can only be destroyed.
 */
typedef struct corale_inproc corale_inproc;
int corale_inproc_create(int n, corale_inproc **group);
void corale_inproc_destroy(corale_inproc *group);
int corale_comm_create_inproc(corale_inproc *group, int rank, const corale_config *config,
			      corale_comm **comm);

/*
 * Splits comm: ranks of equal color (>= 0) form a new communicator, ordered by key, then by rank. A rank with
 * color < 0 takes part and gets *out = NULL. Collective over comm; blocks.
 */
int corale_comm_split(corale_comm *comm, int color, int key, corale_comm **out);

/*
 * Frees a communicator. Every rank calls it, in the same order with other collective calls, but it waits for peers only
 * as far as the calls already made need them. It completes calls in progress; after an error or abort it drops them. It
 * logs a failure that the program has not asked for. destroy(NULL) does nothing.
 * - While an open group of the calling thread has calls of comm, nothing is destroyed: an error line says so. Call it after
 *   corale_group_end.
 * - A call of another rank that needs this one fails there with CORALE_EPEER, which ends comm there and names this rank; calls that do not need it go on.
 * - If another thread is in a call of comm, which is a mistake, that call ends with CORALE_EABORTED on all ranks. A group that another
 *   thread has open is refused at its end.
 * If the last collective had a root, ranks may have ended it without a message of each other: then destroy compares it, waits until the
 * next rank has made it (2 s at most), and logs calls that differ on both ranks.
 *
 * CUDA communicators:
 * - It waits until the GPU has done the calls of this communicator, and for no other work: neither kernels of the program nor calls of other communicators
 *   hold it up. It waits for the whole GPU, as cudaDeviceSynchronize does, only if a call of the communicator was ever captured or the communicator has
 *   failed, because the end of its work can't be told then, and over several nodes where the process has more than 256 MiB of pinned memory to give back.
 * - For later communicators the process keeps that pinned memory, and less than 2 MiB of GPU memory for each communicator that it had at one time.
 * - It may be called while any thread captures a stream, and does not break that capture.
 * - If a call of the communicator was ever captured, a graph may refer to the communicator's GPU memory. That memory then
 *   stays allocated until the process ends. A replay of such a graph ends at once.
 * - When it has returned, no peer stores into the caller's registered memory any more, whatever happened before. If
 *   memory is still registered or allocated, each peer's process is asked to stop, and answers within about 30 ms, or
 *   after a failure when its GPU is idle. A peer that has not answered after 2 s is named in a WARN line: it may still
 *   write.
 */
void corale_comm_destroy(corale_comm *comm);

/* Ends all calls of comm on every rank that can still be reached. They return CORALE_EABORTED. Any thread, also during
 * corale_comm_destroy in another thread; never blocks; idempotent. */
int corale_comm_abort(corale_comm *comm);

int corale_comm_rank(const corale_comm *comm);
int corale_comm_size(const corale_comm *comm);
int corale_comm_node(const corale_comm *comm); /* index of this rank's node */
int corale_comm_nodes(const corale_comm *comm); /* number of nodes */
int corale_comm_local_rank(const corale_comm *comm); /* index within the node */
/*
 * Bytes of windows, scratch and plans of this rank, as they are reserved, and of what host calls keep for later ones: places for partial
 * results, for channels, and for messages read by reference. That grows with the largest call.
 * - A new CUDA communicator of up to 8 ranks takes at most 64 MiB: 62 MiB of its GPU (CORALE_GPU_WINDOW, or memory_cap if
 *   that is less), the rest host memory. Over several nodes it takes up to 64 MiB of pinned host memory in addition
 *   (CORALE_PINNED_MEMORY).
 * - Its first large call (about 2 MB or more to each peer) adds scratch on the GPU: at most 256 MiB per peer, within
 *   memory_cap. The ranks share scratch, so that call alone waits on the host until all ranks have made it. Make one large
 *   call on every communicator before you rely on calls that return at once.
 * - A communicator that has several ranks in one process makes no scratch, so no call waits on the host for another rank and
 *   one thread may drive these ranks. Its large calls take longer.
 * - Not counted: GPU memory that CUDA takes for the kernels with a process's first communicator, and for every process.
 */
size_t corale_comm_memory(const corale_comm *comm);
/*
 * The part of corale_comm_memory that takes memory so far. The kernel gives a window in shared memory its pages when messages first
 * touch them, and most are never touched. All else counts in full, slots for messages between nodes, too. Looks at every page of
 * the window: some microseconds per megabyte.
 */
size_t corale_comm_memory_used(const corale_comm *comm);

/* The last error line logged for comm, "" if there was none. Valid until the next call on comm. */
const char *corale_comm_last_error(const corale_comm *comm);
/* 0 while comm works, else the code of the error that ended it. CORALE_EDEVICE also means that a bad kernel of the program
 * has destroyed the GPU's context; this call tells all ranks so. Any thread. It waits for no call, but the first call after
 * a failure takes up to half a second, because it collects which calls the ranks have made. */
int corale_comm_async_error(const corale_comm *comm);

/* ---- Host streams ---------------------------------------------------------- */

/*
 * A queue of calls that run in order, while the caller goes on. One stream may serve several communicators. Calls on one
 * communicator run in the order in which they were made, whatever their streams. With MPI as the transport, below
 * MPI_THREAD_MULTIPLE, the calls of a stream progress only inside corale_stream_synchronize and corale_stream_query
 * (corale_mpi.h says in which threads).
 */
int corale_stream_create(corale_stream **stream);
/* Blocks until every call made so far has completed. Returns the first error since the last synchronize, or 0. */
int corale_stream_synchronize(corale_stream *stream);
/* 0 when idle, CORALE_INPROGRESS, or the first error. Never blocks. */
int corale_stream_query(corale_stream *stream);
/* Synchronizes, then frees. destroy(NULL) does nothing. While an open group has calls on the stream nothing is destroyed: an error
 * line says so. */
void corale_stream_destroy(corale_stream *stream);

/* ---- Progress of MPI, and the kind of memory ------------------------------- */

/*
 * A function of the program that Corale calls while it waits on the host. Messages of MPI make no progress while their rank waits in another
 * library: a rank in corale_barrier whose peer waits for its MPI_Isend would wait for ever. A function that calls MPI_Iprobe
 * (MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE) prevents that.
 * - One function for the process; fn NULL: none. Set it while no other thread is in a function of Corale. CORALE_ENOTSUP in a forked child.
 * - It is called in the thread that made the call, never in a thread of the library, and by several threads at once where several wait. So what the
 *   program says to MPI of its threads (MPI_Init_thread) holds: the function returns at once in threads that may not call MPI.
 * - It is called in every wait for other ranks or for a stream: of blocking calls, corale_stream_synchronize and corale_stream_destroy, creation, split,
 *   registration and destroy; on CUDA communicators also of the first large call and of calls that receive into ordinary host memory. It is not
 *   called while the CUDA driver itself blocks: in a launch when about 1,000 calls are queued, and when memory is allocated or freed.
 * - It may call MPI, but no function of Corale, and must return: as long as it runs the call does not go on.
 * - A call that need not wait never calls it. It is called every millisecond in short waits, from 0.2 ms of a wait on every 20 us, so that MPI_Iprobe takes 1 to 3 % of a
 *   small call with twice as many ranks as cores, and less otherwise. Where it is set, waits sleep 50 us at most, so a rank that waits for long takes more of its core.
 */
int corale_set_progress(void (*fn)(void *ctx), void *ctx);

/* What memory is at an address. */
typedef struct corale_memory {
	int kind; /* CORALE_MEMORY_* */
	int device; /* CUDA's number of its GPU in this process (of pinned and managed memory: of the context that made it); -1: of ordinary host memory */
} corale_memory;

enum {
	CORALE_MEMORY_HOST = 0, /* ordinary host memory, or anything that CUDA does not know, NULL included */
	CORALE_MEMORY_PINNED = 1, /* host memory of cudaMallocHost or cudaHostRegister */
	CORALE_MEMORY_DEVICE = 2, /* of cudaMalloc, cudaMallocAsync, cuMemMap, corale_mem_alloc */
	CORALE_MEMORY_MANAGED = 3 /* of cudaMallocManaged */
};

/*
 * Says what memory is at pointer. Any thread; never blocks; needs no communicator.
 * - Each call asks the CUDA driver, because an address may hold other memory than before: 0.08 us for memory of the GPU, 0.15 us for ordinary memory (H100).
 * - Makes no CUDA context and does not load the driver: before the program uses CUDA, and in builds without it, all memory is CORALE_MEMORY_HOST.
 * - CORALE_EINVAL: memory is NULL. CORALE_EDEVICE: the driver reports an error, such as that of a kernel that failed before.
 */
int corale_memory_kind(const void *pointer, corale_memory *memory);

/* ---- Collectives ----------------------------------------------------------- */

/*
 * Buffers of calls on CUDA communicators, the cheapest kinds first. Each rank and each buffer may be of another kind.
 * - Memory of the communicator's GPU (cudaMalloc, cudaMallocAsync, cuMemMap, corale_mem_alloc) is used where it is.
 * - Pinned host memory (cudaMallocHost, cudaHostRegister) and managed memory are used where they are, at the speed of the
 *   bus to the host.
 * - Memory of another GPU of the process is copied: the call allocates memory of the communicator's GPU of the same size, on its stream, which copies over the
 *   link between the GPUs, before the call and behind it. A WARN line says so once a process. Such a call returns at once, but while the stream is captured it returns
 *   CORALE_ENOTSUP.
 * - Ordinary host memory is copied: the call allocates GPU memory of the same size, on its stream. Such a call may block
 *   until earlier work on the stream has completed. If it receives into ordinary memory it returns when it has
 *   completed, so it waits for its peers. While the stream is captured it returns CORALE_ENOTSUP, because a replay would
 *   not copy again. A call that fails leaves the ordinary memory as it was.
 * - Every call asks the driver for the kind of its buffers, as an address may hold other memory than at an earlier call.
 */

/* recv[i] = op over all ranks of send[i], on every rank. send, recv: count elements. In place: send == recv.
 * Cost over n ranks: between 1 step of (n-1) count elements sent (one-shot) and
 * 2(n-1) steps of 2 count (n-1)/n elements sent in all (ring). corale-plan prints which. */
int corale_all_reduce(const void *send, void *recv, size_t count, corale_type type, corale_op op,
		      corale_comm *comm, void *stream);

/* recv[r * count + i] = rank r's send[i]. send: count elements; recv: size * count.
 * In place: send == recv + rank * count. Sends (n-1) count elements. */
int corale_all_gather(const void *send, void *recv, size_t count, corale_type type, corale_comm *comm,
		      void *stream);

/* recv[i] = op over all ranks of send[rank * count + i]. send: size * count elements;
 * recv: count. In place: recv == send + rank * count; or, as MPI has it, recv == send: the result goes to the front of the buffer, and
 * all behind it stays as it was. The latter costs a copy of the buffer, and as much memory while the call runs, as with all_to_all; each rank chooses for
 * itself. Sends (n-1) count elements. */
int corale_reduce_scatter(const void *send, void *recv, size_t count, corale_type type, corale_op op,
			  corale_comm *comm, void *stream);

/* recv[i] = root's send[i] on every rank. send, recv: count elements. send is read at the root only (may be NULL
 * elsewhere). In place: send == recv. */
int corale_broadcast(const void *send, void *recv, size_t count, corale_type type, int root,
		     corale_comm *comm, void *stream);

/*
 * At the root, recv[i] = op over all ranks of send[i]. send, recv: count elements. recv is written at the root only (may
 * be NULL elsewhere). In place at the root: send == recv.
 *
 * A non-root rank may return before other ranks have begun, because what it sent is kept for them. So a mismatch at a
 * non-root rank may be reported only by that rank's next call. On a CUDA communicator the call completes on a rank's
 * stream only after all ranks have begun.
 *
 * Cost over n ranks, by size: 1 step of count elements sent to the root (one-shot); log2(n) steps of count elements
 * (binomial tree); 2 steps of at most count elements from each rank, a reduce-scatter and a gather (Rabenseifner 2004); a
 * chain of n-1 steps for large counts. Over several nodes the sum of each node is sent once, along a tree or a chain.
 */
int corale_reduce(const void *send, void *recv, size_t count, corale_type type, corale_op op, int root,
		  corale_comm *comm, void *stream);

/* At the root, recv[r * count + i] = rank r's send[i]. send: count elements; recv: size * count, written at the root only
 * (may be NULL elsewhere). In place at the root: send == recv + root * count. A non-root rank may return early, and
 * mismatches are reported, as with corale_reduce.
 * 1 step: each rank sends count elements directly to the root, which receives (n-1) count. */
int corale_gather(const void *send, void *recv, size_t count, corale_type type, int root, corale_comm *comm,
		  void *stream);

/* recv[i] = the root's send[rank * count + i]. send: size * count elements, read at the root only (may be NULL elsewhere);
 * recv: count. In place at the root: recv == send + root * count.
 * 1 step: the root sends (n-1) count elements, one block directly to each rank. */
int corale_scatter(const void *send, void *recv, size_t count, corale_type type, int root, corale_comm *comm,
		   void *stream);

/* recv[r * count + i] = rank r's send[rank * count + i]. Both: size * count elements. In place: send == recv; each rank chooses for itself.
 * In place costs a copy of the buffer, and as much memory while the call runs: on hosts always; on GPUs where the receive buffer is
 * registered, where the call's plan is lowered or copy engines move it, and over several nodes. For captured calls a communicator keeps
 * one such copy, as large as the next power of two, until the process ends; a larger call makes another one, as graphs name the first. */
int corale_all_to_all(const void *send, void *recv, size_t count, corale_type type, corale_comm *comm,
		      void *stream);

/* As all_to_all, with a count and an offset (displacement, in elements) per peer. In place: send == recv, with equal counts and displacements on both sides; each rank
 * chooses for itself, and it always costs a copy of what the rank sends, as above. The arrays have size entries and are
 * read before the call returns. Counts may be zero. The counts of a pair of ranks must agree on both ends, else the receiver gets
 * CORALE_EMISMATCH, and the sender too: what it sent may have been buffered, so from its next call at the latest. If the two counts of
 * a rank for itself differ, CORALE_EINVAL. */
int corale_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_displs, void *recv,
			const size_t *recv_counts, const size_t *recv_displs, corale_type type,
			corale_comm *comm, void *stream);

/*
 * The v-forms of all_gather, reduce_scatter, gather and scatter: block r has counts[r] elements, and begins displs[r] elements behind the start of the
 * buffer that holds a block of each rank. That buffer may have gaps, which are neither read nor written; its blocks must not overlap, and lie in any order.
 * - The arrays have size entries and are read before the call returns. Counts may be zero. A buffer of which no element is used may be NULL.
 * - counts are the same on all ranks; displs are each rank's own. Where they differ, each rank that receives a message of a block with another
 *   count gets CORALE_EMISMATCH before an element of it is reduced, and the log has both ranks and counts; other ranks get it too, from their next
 *   call at the latest.
 * - They choose algorithms as the even calls do, by the largest block.
 * - On CUDA communicators all_gather_v, gather_v and scatter_v run as an all_to_all_v of the same blocks, by its kernels: each rank sends its block to each
 *   other one. corale_reduce_scatter_v takes as long there as a corale_reduce_scatter whose blocks are as long as the largest, and where copy engines do not
 *   move it a copy of the buffer within the GPU, with memory while the call runs of as many bytes as those blocks and one more have, or at most 256 MiB (captured
 *   calls: as with all_to_all in place). Of counts that differ while the largest is the same, the log has a hash of each rank's.
 */

/* recv[displs[r] + i] = rank r's send[i]. send: counts[rank] elements. In place: send == recv + displs[rank]. Sends between (n-1) counts[rank] elements
 * (one-shot) and all blocks but one (ring, Thakur et al. 2005). */
int corale_all_gather_v(const void *send, void *recv, const size_t *counts, const size_t *displs,
			corale_type type, corale_comm *comm, void *stream);

/* recv[i] = op over all ranks of send[displs[rank] + i]. recv: counts[rank] elements. In place: recv == send + displs[rank], or recv == send as with
 * corale_reduce_scatter. Where all counts are equal
 * the result has the bits of corale_reduce_scatter by the same algorithm. Sends all blocks but its own (one-shot, or ring of Patarasuk and Yuan 2009). */
int corale_reduce_scatter_v(const void *send, const size_t *counts, const size_t *displs, void *recv,
			    corale_type type, corale_op op, corale_comm *comm, void *stream);

/* At the root, recv[recv_displs[r] + i] = rank r's send[i]. send: send_count elements, which may differ by rank. recv and the arrays are used at the root only
 * (may be NULL elsewhere); recv_counts[r] must be rank r's send_count: of another rank else CORALE_EMISMATCH, as above, of the root itself CORALE_EINVAL.
 * In place at the root: send == recv + recv_displs[root]. A non-root rank may return early, as with corale_reduce. Each rank sends its block directly to the
 * root. */
int corale_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
		    const size_t *recv_displs, corale_type type, int root, corale_comm *comm, void *stream);

/* recv[i] = the root's send[send_displs[rank] + i]. recv: recv_count elements, which may differ by rank. send and the arrays are used at the root only (may
 * be NULL elsewhere); send_counts[r] must be rank r's recv_count: of another rank else CORALE_EMISMATCH, as above, of the root itself CORALE_EINVAL.
 * In place at the root: recv == send + send_displs[root]. The root sends each rank its block directly. */
int corale_scatter_v(const void *send, const size_t *send_counts, const size_t *send_displs, void *recv,
		     size_t recv_count, corale_type type, int root, corale_comm *comm, void *stream);

/*
 * Point to point. The k-th send from a to b matches the k-th recv of b from a. count and type must agree on both ends,
 * else both get CORALE_EMISMATCH, with a line that names both calls; the sender of a short message, which was buffered, gets it
 * from its next call.
 * Inside a group, peer may be the caller's own rank.
 * A blocking send outside of a group may wait for its recv. To exchange, use a group.
 * On a CUDA communicator a send completes on its stream when its buffer may be reused: for a short message perhaps before
 * the recv has begun; for a longer one only after the recv has begun, perhaps before it has completed. A large send waits for its
 * recv, whichever way it goes: where the receiver reads the sender's buffer (docs/zero-copy.md), until it has read all.
 */
int corale_send(const void *send, size_t count, corale_type type, int peer, corale_comm *comm, void *stream);
int corale_recv(void *recv, size_t count, corale_type type, int peer, corale_comm *comm, void *stream);

/* Completes (on the stream) after every rank has entered it. */
int corale_barrier(corale_comm *comm, void *stream);

/*
 * Groups. Calls that one thread makes between begin and end are checked when they are made, and started together at the
 * end. So sends and receives in any order cannot deadlock. With NULL streams the end blocks. Groups nest; the outermost
 * end starts the calls. If a call inside was refused, the end starts nothing and returns that call's error. Grouping
 * never changes the bits of a result.
 *
 * A group that one rank refuses may have started on other ranks. To keep calls from matching earlier ones, every communicator of more than one
 * rank that has a call in a refused group, be it the refused one, fails with CORALE_EMISMATCH on all its ranks, whatever the reason, and also where
 * all ranks refuse it. The log names the group, its calls and the reason. That is so as well if a call names no communicator (NULL, or a
 * destroyed one). A communicator that fails only once the group has started ends alone; the group's other communicators go on.
 *
 * Host communicators:
 * - Grouped calls without a stream, or on the same stream, progress concurrently, across communicators. Collectives on one
 *   communicator run in call order.
 * - So other ranks may make the same calls in a group or one by one, in any order of communicators, with their sends and
 *   receives before or after their collectives.
 * - All sends, receives and collectives of one communicator in a group must use the same host stream, if it sends or
 *   receives at all (else CORALE_ENOTSUP).
 *
 * CUDA communicators:
 * - All ranks must group the same calls.
 * - The calls of one communicator are all captured, in one capture, or none of them is (else CORALE_ENOTSUP).
 * - If one call of the group is refused, none starts and none is captured, and the group's communicators end, as above.
 * - The communicators are served one after the other, in an order that all their ranks share.
 * - All sends and receives of a communicator start together, after all earlier work on any of their streams. Later work on
 *   these streams waits for all of them. More than 160 of a rank start in waves, one behind the other.
 * - Collectives run in call order.
 *
 * One thread may drive several ranks of a communicator, or of several. Calls on streams, which are another one for each
 * rank, may come in any order of the ranks. Blocking calls need one group of the calls of all these ranks, in any order of
 * the ranks; each rank's calls run as made. Without a group a host call that waits for a rank whose call the waiting thread
 * would have to make fails with CORALE_EINVAL after a second, if the program has no other thread; else it ends at its
 * deadline, as another thread might make that call. On a CUDA communicator each of these ranks uses a stream of its own. On a host
 * communicator all calls of a rank use one stream, or none does.
 */
int corale_group_begin(void);
int corale_group_end(void);

/* ---- Memory ---------------------------------------------------------------- */

/*
 * Allocates memory that peers can map, so that calls use it in place, without staging.
 * - Collective; blocks. Every rank calls it in the same order. bytes may differ: the smallest of all ranks' counts.
 * - Free it by corale_mem_free, also collective. After corale_comm_destroy each rank frees it alone, with the same comm
 *   pointer.
 *
 * On a CUDA communicator it is memory of the GPU, in units of 2 MB. Large calls store directly into receive buffers in it.
 * - In one call either every rank passes the same registration (or allocation) at the same offset as receive buffer, or no
 *   rank passes registered memory. Else the call may end with CORALE_EMISMATCH, which names both. The root of a broadcast
 *   has a receive buffer, too.
 * - Send buffers have no such restriction. corale_recv has none either: its buffer may be registered or not, at any offset.
 * - After a failed call the registered memory of the communicator may hold anything, until it is given up: once
 *   corale_mem_free, corale_mem_deregister or corale_comm_destroy has returned, no peer stores into it (see
 *   corale_comm_destroy). If a peer can't answer and may still store, corale_mem_free does not release the memory.
 *
 * Free and deregister:
 * - All ranks give up the same registration, or none does (CORALE_EINVAL).
 * - Call them only when every call that uses the memory has completed on this rank's stream, and no graph that holds such
 *   a call will run again.
 * - Do not call them while a stream is being captured. Both wait for the communicator's calls on the GPU, as corale_comm_destroy does.
 */
int corale_mem_alloc(corale_comm *comm, size_t bytes, void **buffer);
int corale_mem_free(corale_comm *comm, void *buffer);
/*
 * The same for memory that the caller owns.
 * - Deregister it before you free it. CORALE_CHECK_MEMORY=yes finds memory that was freed while registered.
 * - Any memory can be registered. Peers can map only memory of cudaMalloc, and of cuMemCreate made for file descriptors
 *   (the buffer inside one cuMemMap range). If the memory of one rank can't be mapped, the registration has no effect on
 *   any rank, as if the memory were not registered; CORALE_DEBUG=info says why.
 * - Copy engines store faster into memory of corale_mem_alloc than of cudaMalloc.
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
	CORALE_ALL_GATHER_V = 12,
	CORALE_REDUCE_SCATTER_V = 13,
	CORALE_GATHER_V = 14,
	CORALE_SCATTER_V = 15,
	CORALE_NUM_COLLS = 16
} corale_coll;

/*
 * Makes the plan of one call, without its buffers. Local, no communication. op and root are ignored if the collective has
 * none. Arguments are checked as by the collective (CORALE_EINVAL). The v-forms, send and recv have no plans
 * (CORALE_ENOTSUP). A plan may be destroyed while runs of it still wait on a stream or in a group.
 */
int corale_plan_create(corale_coll coll, size_t count, corale_type type, corale_op op, int root,
		       corale_comm *comm, corale_plan **plan);
/* Runs the plan, exactly as the collective itself would run. */
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
