/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All settings of the library: one table (settings.c), read once from the environment.
 * corale-info and docs/settings.md print the same table; a test compares them.
 */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct settings {
	int debug; /* CORALE_DEBUG: error, warn, info, trace */
	char log_file[256]; /* CORALE_LOG_FILE */
	double timeout; /* CORALE_TIMEOUT, seconds; 0: never */
	size_t memory_cap; /* CORALE_MEMORY_CAP, bytes */
	int node_size; /* CORALE_NODE_SIZE: fake nodes of so many ranks; 0: real ones */
	char algo[256]; /* CORALE_ALGO: "ring", "all_reduce:ring,broadcast:flat", "^ring" */
	int reproducible; /* CORALE_REPRODUCIBLE */
	int max_channels; /* CORALE_MAX_CHANNELS; 0: as many as cores allow */
	size_t gpu_window; /* CORALE_GPU_WINDOW: bytes of a GPU's window */
	size_t host_window; /* CORALE_HOST_WINDOW: bytes of a rank's window in host memory; 0: none */
	int p2p_check; /* CORALE_P2P_CHECK, enum settings_choice */
	int p2p; /* CORALE_P2P; 0: GPUs are taken for ones that can't reach each other's memory */
	char proto[32]; /* CORALE_PROTO: forces a protocol */
	int zero_copy; /* CORALE_ZERO_COPY */
	int codelets; /* CORALE_CODELETS; 0: all plans on GPUs are lowered, on hosts interpreted */
	int max_ctas; /* CORALE_MAX_CTAS: blocks of a kernel; 0: as cta_policy says */
	int cta_policy; /* CORALE_CTA_POLICY, enum settings_cta_policy: how many blocks calls on GPUs take */
	int check_memory; /* CORALE_CHECK_MEMORY: calls on GPUs look whether registered memory still is what it was */
	size_t slot_bytes; /* CORALE_SLOT_BYTES: the most that one message through a window carries */
	int slots; /* CORALE_SLOTS: messages in flight per queue of a window */
	size_t chunk_bytes; /* CORALE_CHUNK_BYTES: forces the chunk; 0: the planner chooses */
	int reference; /* CORALE_REFERENCE, enum settings_choice: large messages inside a node by reference */
	size_t reference_bytes; /* CORALE_REFERENCE_BYTES: from this size of message on */
	char transport[32]; /* CORALE_TRANSPORT: auto, or a row of lib/comm/transport_rows.c */
	char ucx_library[512]; /* CORALE_UCX_LIBRARY; "": where ucx_find looks */
	char modules[512]; /* CORALE_MODULES; "": the library's folder */
	char mpi_library[512]; /* CORALE_MPI_LIBRARY, for corale-run alone */
	char net_devices[256]; /* CORALE_NET_DEVICES: for UCX; "": by the variables of NCCL below */
	char ib_hca
	    [256]; /* NCCL_IB_HCA: adapters that GPUs may use where net_devices is "" (adapters_names.c) */
	/* NCCL_SOCKET_IFNAME and the like, "": unset. Texts: what is malformed is told by who uses it, and fails no program (net/network.h) */
	char socket_ifname[256], socket_family[32], nccl_net[64], ib_disable[32];
	char ib_gid_index[32], ib_tc[32], ib_sl[32], ib_timeout[32], ib_retry_cnt[32];
	char topo_file[256]; /* CORALE_TOPO_FILE: an hwloc XML with the PCI tree; "": this machine's */
	char net_rates[256]; /* CORALE_NET_RATES: auto (measured), built-in, or topo_parse_rails's text */
	char tuning[256]; /* CORALE_TUNING: a file of rates (comm/tuning_file.h); "": none */
	char ucx_message[16]; /* CORALE_UCX_MESSAGE: auto (measured), put, tag, am */
	size_t pinned_memory;
	int gpudirect, gpudirect_flush; /* CORALE_GPUDIRECT, CORALE_GPUDIRECT_FLUSH, enum settings_choice */
	int rails; /* CORALE_RAILS: between nodes with GPUs; 0: by the network and cores per rank */
	double spin_us; /* CORALE_SPIN_US: a wait polls so long before it yields; < 0: by cores per rank */
	int nccl_device; /* CORALE_NCCL_DEVICE, enum settings_nccl_device: where libnccl.so.2's buffers are */
	int nccl_version; /* CORALE_NCCL_VERSION: what ncclGetVersion says */
	double nccl_timeout; /* CORALE_NCCL_TIMEOUT, seconds: for calls of libnccl.so.2; 0: never */
	double nccl_init_timeout; /* CORALE_NCCL_INIT_TIMEOUT, seconds; 0: never */
	size_t nccl_window; /* CORALE_NCCL_WINDOW: gpu_window of libnccl.so.2 */
	size_t nccl_pinned; /* CORALE_NCCL_PINNED_MEMORY: pinned_memory of these; 0: by the number of ranks */
	size_t nccl_scratch; /* CORALE_NCCL_SCRATCH: bytes of scratch of each of these communicators */
	int mpi; /* CORALE_MPI, enum settings_mpi: which buffers libcorale_pmpi.so takes */
	int mpi_comms; /* CORALE_MPI_COMMS: communicators that it makes at most */
	int mpi_after; /* CORALE_MPI_AFTER: calls on a communicator of MPI before it makes one */
	int mpi_peer; /* CORALE_MPI_PEER, enum settings_mpi_peer: messages of device memory by peer copies */
	size_t mpi_peer_least; /* CORALE_MPI_PEER_LEAST, bytes */
	size_t
	    mpi_peer_eager; /* CORALE_MPI_PEER_EAGER, bytes: standard sends that do not wait for their receive */
	double
	    mpi_peer_wait_us; /* CORALE_MPI_PEER_WAIT_US: from the match of a send to the copy that ends it */
	uint64_t from_environment; /* bit i: row i of the table was set in the environment */
	uint64_t from_offer; /* bit i: row i was not, and has a value of settings_offer */
};

enum settings_choice { SETTINGS_NO, SETTINGS_YES, SETTINGS_AUTO };

/* In the order of corale.h's CORALE_CTA_POLICY_*, which begin with the setting's own. */
enum settings_cta_policy { SETTINGS_CTA_AUTO, SETTINGS_CTA_EFFICIENT, SETTINGS_CTA_ZERO };

enum settings_nccl_device { SETTINGS_NCCL_AUTO, SETTINGS_NCCL_CUDA, SETTINGS_NCCL_HOST };

enum settings_mpi { SETTINGS_MPI_DEVICE, SETTINGS_MPI_ALL, SETTINGS_MPI_HOST, SETTINGS_MPI_OFF };

enum settings_mpi_peer { SETTINGS_PEER_AUTO, SETTINGS_PEER_YES, SETTINGS_PEER_NO };

enum settings_origin { SETTINGS_DEFAULT, SETTINGS_ENVIRONMENT, SETTINGS_OFFER };

struct settings_row {
	const char *name; /* "CORALE_TIMEOUT" */
	const char *values; /* what it accepts, for people */
	const char *fallback; /* the default, as text */
	const char *help; /* one sentence */
	int shared; /* 1: must be equal on all ranks (compared at communicator creation) */
};

/* The process's settings, read on the first call (any thread); malformed values are logged and fail with
 * CORALE_ESETTING on every call; unknown CORALE_* names are reported once, with the nearest known name. */
int settings_get(const struct settings **out);

/*
 * Before the first settings_get: a value for row name where the environment sets none, for a library that has settings of
 * other names (it changes no environment). The last offer counts; an empty value takes it back.
 * 0; CORALE_EINVAL: no row has this name; CORALE_ESETTING: the value is malformed; CORALE_ECOMM: the settings have been read.
 * None is an error of the process: a malformed value is logged at INFO once the settings are read, and is not used.
 */
int settings_offer(const char *name, const char *value);

/* Where the process's settings come from: its environment, or nothing in a program that has more rights than who started it (setuid,
 * setgid, file capabilities). */
char *const *settings_environment(void);

/* The table: rows 0 .. settings_count() - 1. */
int settings_count(void);
const struct settings_row *settings_row(int i);
/* 1: tests and measurements set it, users do not: it is not in docs/settings.md. */
int settings_is_for_tests(int i);
/* Value of row i as text into buf, and where it came from. */
enum settings_origin settings_value(const struct settings *s, int i, char *buf, size_t bytes);

/* 1 if settings_offer gave the value of row name. */
int settings_is_offered(const struct settings *s, const char *name);

/* Reads one settings struct from a list of "NAME=value" strings (NULL-terminated); for tests and for settings_get.
 * Returns 0 or CORALE_ESETTING, with the reason logged. */
int settings_parse(char *const *environment, struct settings *out);

/* The next entry of environment, from *position on, that begins with CORALE_ and that no row names: its name and
 * the known name that is nearest to it (NULL if none is near). Returns 0 at the end. */
int settings_next_unknown(char *const *environment, size_t *position, char name[64], const char **nearest);

#endif
