/* SPDX-License-Identifier: BSD-3-Clause */
#include "env_table.h"

#include <string.h>

#define HONOURED DOOR_ENV_HONOURED
#define MAPPED DOOR_ENV_MAPPED
#define UNNEEDED DOOR_ENV_NOT_NEEDED
#define LOST DOOR_ENV_LOST
#define OTHERS DOOR_ENV_NOT_NCCLS

/* Sentences that hold for many rows. */
#define RAILS                                                                                                \
	"CORALE_RAILS sets the threads and connections to each peer; by default four over tcp, one over an " \
	"adapter."
#define ADAPTERS                                                                                             \
	"Each GPU uses the adapters nearest to it, unless NCCL_IB_HCA or CORALE_NET_DEVICES names them."
#define GPUDIRECT                                                                                            \
	"Whether adapters reach GPUs' memory is tried when a communicator is made; CORALE_GPUDIRECT "        \
	"forbids or demands it."
#define NO_PXN "No rank sends through another one's GPU."
#define NO_COLLNET "No collective runs in the network."
#define NO_MNNVL "Hosts exchange data by the network, also where NVLink joins them."
#define GID "UCX chooses the GID, unless NCCL_IB_GID_INDEX or UCX_IB_GID_INDEX is set."
#define PLANNER "The planner chooses algorithms, chunks and blocks for each call."
#define REGISTRATION                                                                                         \
	"Buffers need no registration: peers read them where they lie, those of ncclCommRegister and of "    \
	"captured calls from the first call on. CORALE_ZERO_COPY=no turns that off."
#define NO_NVLS "No algorithm uses NVLink SHARP."
#define NO_PLUGIN "No plugin is loaded."
#define REMOVED "NCCL has removed it."
#define BLOCK_LIMIT "Limits the blocks of a kernel; the lower one of the two limits counts."
#define BLOCK_MINIMUM "Raises the default limit of blocks; the planner may take fewer for small calls."

static const struct door_env_row rows[] = {
	/* Bootstrap */
	{ "NCCL_SOCKET_IFNAME", HONOURED,
	  "Chooses the interfaces of the bootstrap and of tcp between nodes: prefixes, ^ excludes, = names "
	  "exactly.",
	  NULL },
	{ "NCCL_SOCKET_FAMILY", HONOURED,
	  "AF_INET or AF_INET6, for the bootstrap and for tcp between nodes; another text is not used, as by "
	  "NCCL.",
	  NULL },
	{ "NCCL_COMM_ID", HONOURED, "host:port where rank 0 listens; the id is derived from this text.",
	  NULL },
	{ "NCCL_CONF_FILE", HONOURED, "File of KEY=VALUE lines, read instead of ~/.nccl.conf.", NULL },
	{ "NCCL_SOCKET_RETRY_CNT", UNNEEDED,
	  "The bootstrap tries to connect until CORALE_NCCL_INIT_TIMEOUT has passed.", NULL },
	{ "NCCL_SOCKET_RETRY_SLEEP_MSEC", UNNEEDED,
	  "The bootstrap tries to connect until CORALE_NCCL_INIT_TIMEOUT has passed.", NULL },
	{ "NCCL_SOCKET_POLL_TIMEOUT_MSEC", UNNEEDED, "The bootstrap sleeps in poll.", NULL },
	{ "NCCL_SOCKET_MAGIC", UNNEEDED, "The key in the id keeps strangers out of the bootstrap.", NULL },
	{ "NCCL_OOB_NET_ENABLE", UNNEEDED, "The bootstrap runs over TCP.", NULL },
	{ "NCCL_OOB_NET_IFNAME", UNNEEDED, "The bootstrap runs over TCP, on NCCL_SOCKET_IFNAME.", NULL },
	{ "NCCL_UID_STAGGER_RATE", UNNEEDED, "The bootstrap needs no pause between connections.", NULL },
	{ "NCCL_UID_STAGGER_THRESHOLD", UNNEEDED, "The bootstrap needs no pause between connections.", NULL },
	{ "NCCL_REPORT_CONNECT_PROGRESS", UNNEEDED, "Creation names the ranks that are missing, at WARN.",
	  NULL },
	{ "NCCL_RUNTIME_CONNECT", UNNEEDED, "Creation makes all connections.", NULL },

	/* Hosts and processes */
	{ "NCCL_HOSTID", HONOURED,
	  "Stands for the host's name, by which ranks of one machine are told apart.", NULL },
	{ "NCCL_COMM_BLOCKING", LOST, "All communicators block.", "1" },
	{ "NCCL_SET_THREAD_NAME", LOST, "Threads have no names of their own.", "0" },
	{ "NCCL_IGNORE_CPU_AFFINITY", UNNEEDED, "Threads run where the process may run.", NULL },
	{ "NCCL_MULTI_RANK_GPU_ENABLE", UNNEEDED, "Several ranks may always share a GPU.", NULL },

	/* Sockets as a network */
	{ "NCCL_SOCKET_NTHREADS", UNNEEDED, RAILS, NULL },
	{ "NCCL_NSOCKS_PERTHREAD", UNNEEDED, RAILS, NULL },
	{ "NCCL_SOCKET_SNDBUF", UNNEEDED,
	  "The kernel sizes the buffers of sockets; UCX_TCP_SNDBUF sets them.", NULL },
	{ "NCCL_SOCKET_RCVBUF", UNNEEDED,
	  "The kernel sizes the buffers of sockets; UCX_TCP_RCVBUF sets them.", NULL },
	{ "NCCL_SOCKET_INLINE", UNNEEDED, "UCX cuts messages for sockets.", NULL },
	{ "NCCL_SOCKET_MIN_TASKSIZE", UNNEEDED, "UCX cuts messages for sockets.", NULL },

	/* Networks */
	{ "NCCL_NET", MAPPED,
	  "Socket leaves out RDMA adapters, IB leaves nothing else; names of plugins have no effect.", NULL },
	{ "NCCL_NET_PLUGIN", UNNEEDED, NO_PLUGIN, NULL },
	{ "NCCL_CROSS_NIC", UNNEEDED,
	  "Adapters of two GPUs meet in their order: the first of one and the first of the other.", NULL },
	{ "NCCL_NETDEVS_POLICY", UNNEEDED, ADAPTERS, NULL },
	{ "NCCL_NET_MERGE_LEVEL", UNNEEDED, ADAPTERS, NULL },
	{ "NCCL_NET_MERGE_POLICY", UNNEEDED, ADAPTERS, NULL },
	{ "NCCL_NET_FORCE_MERGE", UNNEEDED, ADAPTERS, NULL },
	{ "NCCL_NET_SHARED_BUFFERS", UNNEEDED,
	  "Communicators of a process share connections, and have buffers of their own.", NULL },
	{ "NCCL_NET_SHARED_COMMS", UNNEEDED,
	  "Communicators of a process share connections, and have buffers of their own.", NULL },
	{ "NCCL_IGNORE_NET_MISMATCH", UNNEEDED, "Ranks may have different adapters; what they share is used.",
	  NULL },
	{ "NCCL_NCHANNELS_PER_NET_PEER", UNNEEDED, RAILS, NULL },
	{ "NCCL_NET_GDR_LEVEL", MAPPED,
	  "LOC becomes CORALE_GPUDIRECT=no; of other paths it is tried whether they work and are faster.",
	  NULL },
	{ "NCCL_NET_GDR_READ", UNNEEDED, GPUDIRECT, NULL },
	{ "NCCL_NET_GDR_C2C", UNNEEDED, GPUDIRECT, NULL },
	{ "NCCL_NET_DISABLE_INTRA", UNNEEDED, "No network carries data inside a node.", NULL },
	{ "NCCL_NET_FORCE_FLUSH", MAPPED,
	  "1 becomes CORALE_GPUDIRECT_FLUSH=yes; else adapters read back where the GPU needs it.", NULL },
	{ "NCCL_DMABUF_ENABLE", UNNEEDED, "UCX chooses how an adapter reaches a GPU's memory.", NULL },
	{ "NCCL_GDRCOPY_ENABLE", UNNEEDED, "The host writes nothing into GPUs' memory.", NULL },
	{ "NCCL_PXN_DISABLE", UNNEEDED, NO_PXN, NULL },
	{ "NCCL_PXN_C2C", UNNEEDED, NO_PXN, NULL },
	{ "NCCL_P2P_PXN_LEVEL", UNNEEDED, NO_PXN, NULL },
	{ "NCCL_COLLNET_ENABLE", UNNEEDED, NO_COLLNET, NULL },
	{ "NCCL_COLLNET_NODE_THRESHOLD", UNNEEDED, NO_COLLNET, NULL },
	{ "NCCL_IGNORE_COLLNET_MISMATCH", UNNEEDED, NO_COLLNET, NULL },
	{ "NCCL_ALLOC_P2P_NET_LL_BUFFERS", UNNEEDED, PLANNER, NULL },
	{ "NCCL_P2P_NET_CHUNKSIZE", UNNEEDED, PLANNER, NULL },
	{ "NCCL_SYM_GIN_KERNELS_ENABLE", UNNEEDED,
	  "No kernel sends to other hosts: threads of the library do.", NULL },
	{ "NCCL_MNNVL_ENABLE", UNNEEDED, NO_MNNVL, NULL },
	{ "NCCL_MNNVL_UUID", UNNEEDED, NO_MNNVL, NULL },
	{ "NCCL_MNNVL_CLIQUE_ID", UNNEEDED, NO_MNNVL, NULL },

	/* InfiniBand and RoCE */
	{ "NCCL_IB_DISABLE", HONOURED, "1 leaves out RDMA adapters.", NULL },
	{ "NCCL_IB_HCA", HONOURED,
	  "Names the RDMA adapters and ports: prefixes, ^ excludes, = names exactly.", NULL },
	{ "NCCL_IB_TIMEOUT", MAPPED,
	  "Becomes UCX's RC_TIMEOUT, 4.096 us times 2 to this power, unless UCX_RC_TIMEOUT is set.", NULL },
	{ "NCCL_IB_RETRY_CNT", MAPPED, "Becomes UCX's RC_RETRY_COUNT, unless UCX_RC_RETRY_COUNT is set.",
	  NULL },
	{ "NCCL_IB_GID_INDEX", MAPPED,
	  "Becomes UCX's IB_GID_INDEX, unless UCX_IB_GID_INDEX is set; -1: UCX chooses.", NULL },
	{ "NCCL_IB_ADDR_FAMILY", UNNEEDED, GID, NULL },
	{ "NCCL_IB_ADDR_RANGE", UNNEEDED, GID, NULL },
	{ "NCCL_IB_ROCE_VERSION_NUM", UNNEEDED, GID, NULL },
	{ "NCCL_IB_SL", MAPPED, "Becomes UCX's IB_SL, unless UCX_IB_SL is set.", NULL },
	{ "NCCL_IB_TC", MAPPED, "Becomes UCX's IB_TRAFFIC_CLASS, unless UCX_IB_TRAFFIC_CLASS is set.", NULL },
	{ "NCCL_IB_FIFO_TC", UNNEEDED, "All messages have the class of NCCL_IB_TC.", NULL },
	{ "NCCL_IB_PKEY", LOST,
	  "UCX uses the partition that UCX_IB_PKEY names by its value, else the first one.", "0" },
	{ "NCCL_IB_QPS_PER_CONNECTION", UNNEEDED, RAILS, NULL },
	{ "NCCL_IB_SPLIT_DATA_ON_QPS", UNNEEDED, RAILS, NULL },
	{ "NCCL_IB_PCI_RELAXED_ORDERING", UNNEEDED,
	  "Off where adapters write GPUs' memory; else UCX chooses, or UCX_IB_PCI_RELAXED_ORDERING.", NULL },
	{ "NCCL_IB_ADAPTIVE_ROUTING", UNNEEDED, "UCX_IB_AR_ENABLE sets it.", NULL },
	{ "NCCL_IB_AR_THRESHOLD", UNNEEDED, "UCX_IB_AR_ENABLE sets adaptive routing.", NULL },
	{ "NCCL_IB_ECE_ENABLE", UNNEEDED, "UCX makes the connections.", NULL },
	{ "NCCL_IB_MERGE_NICS", UNNEEDED, ADAPTERS, NULL },
	{ "NCCL_IB_OOO_RQ", UNNEEDED, "UCX makes the connections.", NULL },
	{ "NCCL_IB_RETURN_ASYNC_EVENTS", UNNEEDED,
	  "A connection that fails is an error of the calls that need it.", NULL },
	{ "NCCL_IB_DATA_DIRECT", UNNEEDED, "UCX chooses how an adapter reaches a GPU's memory.", NULL },
	{ "NCCL_IB_RESILIENCY_PORT_FAILOVER", LOST, "A connection that fails ends the communicator.", "0" },
	{ "NCCL_IB_RESILIENCY_PORT_RECOVERY", LOST, "A connection that fails ends the communicator.", "0" },
	{ "NCCL_IB_CUDA_SUPPORT", UNNEEDED, REMOVED, NULL },

	/* Between GPUs of a host */
	{ "NCCL_P2P_DISABLE", HONOURED,
	  "1: each rank on a GPU is a node of its own, and messages go through host memory and UCX.", NULL },
	{ "NCCL_P2P_LEVEL", LOST, "GPUs reach each other's memory wherever the driver allows it.", "SYS" },
	{ "NCCL_IGNORE_DISABLED_P2P", UNNEEDED,
	  "GPUs that can't reach each other's memory are on nodes of their own; nothing fails.", NULL },
	{ "NCCL_P2P_DIRECT_DISABLE", UNNEEDED, "Ranks of one process use no path of their own.", NULL },
	{ "NCCL_P2P_READ_ENABLE", UNNEEDED, PLANNER, NULL },
	{ "NCCL_P2P_USE_CUDA_MEMCPY", UNNEEDED, PLANNER, NULL },
	{ "NCCL_SHM_DISABLE", HONOURED,
	  "1: each rank in host memory is a node of its own; nodes of one host, GPUs' too, share no "
	  "memory.",
	  NULL },
	{ "NCCL_SHM_USE_CUDA_MEMCPY", UNNEEDED, "GPUs exchange no data through host memory.", NULL },
	{ "NCCL_NVB_DISABLE", UNNEEDED, "No GPU passes on data of two others.", NULL },
	{ "NCCL_NVLS_ENABLE", UNNEEDED, NO_NVLS, NULL },
	{ "NCCL_NVLS_CHUNKSIZE", UNNEEDED, NO_NVLS, NULL },
	{ "NCCL_NVLS_NCHANNELS", UNNEEDED, NO_NVLS, NULL },
	{ "NCCL_CUMEM_ENABLE", UNNEEDED, "The library chooses how to share GPU memory between processes.",
	  NULL },
	{ "NCCL_CUMEM_HOST_ENABLE", UNNEEDED, "GPUs exchange no data through host memory.", NULL },
	{ "NCCL_IPC_USE_ABSTRACT_SOCKET", UNNEEDED,
	  "The library chooses how processes pass each other descriptors.", NULL },

	/* Algorithms and resources */
	{ "NCCL_ALGO", MAPPED,
	  "Tree or Ring alone, with NCCL_PROTO=Simple and one channel, means sums in rank order; else the "
	  "planner chooses.",
	  NULL },
	{ "NCCL_PROTO", MAPPED,
	  "LL, LL128 or Simple alone becomes CORALE_PROTO=LL, LL128 or FIFO; other values have no effect.",
	  NULL },
	{ "NCCL_MAX_CTAS", MAPPED, BLOCK_LIMIT, NULL },
	{ "NCCL_MAX_NCHANNELS", MAPPED, BLOCK_LIMIT, NULL },
	{ "NCCL_MAX_NRINGS", MAPPED, "Old name of NCCL_MAX_NCHANNELS, used where that is unset.", NULL },
	{ "NCCL_MIN_CTAS", MAPPED, BLOCK_MINIMUM, NULL },
	{ "NCCL_MIN_NCHANNELS", MAPPED, BLOCK_MINIMUM, NULL },
	{ "NCCL_MIN_NRINGS", MAPPED, "Old name of NCCL_MIN_NCHANNELS, used where that is unset.", NULL },
	{ "NCCL_CTA_POLICY", MAPPED,
	  "DEFAULT, EFFICIENCY or ZERO alone (or 0, 1, 2) becomes CORALE_CTA_POLICY=auto, efficient or zero.",
	  NULL },
	{ "NCCL_MAX_P2P_NCHANNELS", UNNEEDED, PLANNER, NULL },
	{ "NCCL_MIN_P2P_NCHANNELS", UNNEEDED, PLANNER, NULL },
	{ "NCCL_BUFFSIZE", UNNEEDED, "CORALE_NCCL_WINDOW sets the memory of a communicator.", NULL },
	{ "NCCL_LL_BUFFSIZE", UNNEEDED, "CORALE_NCCL_WINDOW sets the memory of a communicator.", NULL },
	{ "NCCL_LL128_BUFFSIZE", UNNEEDED, "CORALE_NCCL_WINDOW sets the memory of a communicator.", NULL },
	{ "NCCL_NTHREADS", UNNEEDED, "Each kernel has a block size of its own.", NULL },
	{ "NCCL_LL128_NTHREADS", UNNEEDED, "Each kernel has a block size of its own.", NULL },
	{ "NCCL_CGA_CLUSTER_SIZE", UNNEEDED, "Kernels use no clusters.", NULL },
	{ "NCCL_P2P_NVL_CHUNKSIZE", UNNEEDED, PLANNER, NULL },
	{ "NCCL_P2P_PCI_CHUNKSIZE", UNNEEDED, PLANNER, NULL },
	{ "NCCL_P2P_LL_THRESHOLD", UNNEEDED, PLANNER, NULL },
	{ "NCCL_PAT_ENABLE", UNNEEDED, PLANNER, NULL },
	{ "NCCL_SYM_KERNEL", UNNEEDED, PLANNER, NULL },
	{ "NCCL_SYM_CTAS", UNNEEDED, PLANNER, NULL },
	{ "NCCL_SYM_CE_THRESHOLD", UNNEEDED, PLANNER, NULL },
	{ "NCCL_LL_THRESHOLD", UNNEEDED, REMOVED, NULL },
	{ "NCCL_TREE_THRESHOLD", UNNEEDED, REMOVED, NULL },
	{ "NCCL_SINGLE_RING_THRESHOLD", UNNEEDED, REMOVED, NULL },
	{ "NCCL_WIN_ENABLE", UNNEEDED, "No windows are made: ncclCommWindowRegister gives NULL.", NULL },
	{ "NCCL_GRAPH_REGISTER", UNNEEDED, REGISTRATION, NULL },
	{ "NCCL_LOCAL_REGISTER", UNNEEDED, REGISTRATION, NULL },
	{ "NCCL_LEGACY_CUDA_REGISTER", UNNEEDED, REGISTRATION, NULL },
	{ "NCCL_COMM_SPLIT_SHARE_RESOURCES", UNNEEDED, "A child has memory of its own.", NULL },
	{ "NCCL_COMM_SHRINK_SHARE_RESOURCES", UNNEEDED, "A child has memory of its own.", NULL },

	/* Launches */
	{ "NCCL_LAUNCH_ORDER_IMPLICIT", LOST,
	  "Calls of different communicators are ordered only by the program's streams and events.", "0" },
	{ "NCCL_LAUNCH_RACE_FATAL", UNNEEDED, "It belongs to NCCL_LAUNCH_ORDER_IMPLICIT.", NULL },
	{ "NCCL_LAUNCH_MODE", UNNEEDED, "Kernels are launched one a GPU, without cooperative groups.", NULL },
	{ "NCCL_GRAPH_MIXING_SUPPORT", LOST,
	  "The program orders replays of graphs and other calls, alike on all ranks.", "0" },
	{ "NCCL_GRAPH_STREAM_ORDERING", LOST,
	  "The program orders replays of graphs and other calls, alike on all ranks.", "0" },
	{ "NCCL_MEM_SYNC_DOMAIN", UNNEEDED, "Kernels run in the default memory domain.", NULL },
	{ "NCCL_SET_STACK_SIZE", UNNEEDED, "Kernels need no stack that the CUDA context lacks.", NULL },
	{ "NCCL_WORK_FIFO_BYTES", UNNEEDED, "Kernels get a call's facts as arguments.", NULL },

	/* Plugins */
	{ "NCCL_TUNER_PLUGIN", UNNEEDED, PLANNER, NULL },
	{ "NCCL_PROFILER_PLUGIN", LOST, NO_PLUGIN, "none" },
	{ "NCCL_ENV_PLUGIN", LOST, NO_PLUGIN, "none" },

	/* Topology */
	{ "NCCL_TOPO_FILE", LOST, "The library asks the driver for the topology.", NULL },
	{ "NCCL_TOPO_DUMP_FILE", LOST, "No file is written.", NULL },
	{ "NCCL_TOPO_DUMP_FILE_RANK", UNNEEDED, "It belongs to NCCL_TOPO_DUMP_FILE.", NULL },
	{ "NCCL_GRAPH_FILE", LOST, "The planner makes every plan itself.", NULL },
	{ "NCCL_GRAPH_DUMP_FILE", LOST, "No file is written.", NULL },
	{ "NCCL_GRAPH_DUMP_FILE_RANK", UNNEEDED, "It belongs to NCCL_GRAPH_DUMP_FILE.", NULL },

	/* Log and checks */
	{ "NCCL_DEBUG", HONOURED,
	  "VERSION, WARN, INFO or TRACE; CORALE_DEBUG overrides it; errors and warnings are on stderr "
	  "without it.",
	  NULL },
	{ "NCCL_DEBUG_FILE", HONOURED,
	  "File of all lines, with %h and %p; a regular file or FIFO of the user's own, a terminal, "
	  "/dev/stdout or "
	  "/dev/stderr.",
	  NULL },
	{ "NCCL_DEBUG_SUBSYS", HONOURED,
	  "Filters INFO lines as in NCCL; those of Corale itself are of subsystem TUNING.", NULL },
	{ "NCCL_DEBUG_TIMESTAMP_FORMAT", LOST, "Lines have no time.", NULL },
	{ "NCCL_DEBUG_TIMESTAMP_LEVELS", LOST, "Lines have no time.", NULL },
	{ "NCCL_WARN_ENABLE_DEBUG_INFO", LOST, "A warning does not change the level.", "0" },
	{ "NCCL_CHECK_POINTERS", LOST, "Buffers are not checked to be memory of this GPU.", "0" },
	{ "NCCL_CHECK_MODE", LOST,
	  "Buffers are not checked to be memory of this GPU; ranks' calls are compared always.", "DEFAULT" },
	{ "NCCL_CHECKS_DISABLE", UNNEEDED, REMOVED, NULL },
	{ "NCCL_PARAM_DUMP_ALL", LOST, "ncclParamDumpAll prints variables; creation does not.", "0" },
	{ "NCCL_PROXY_DUMP_SIGNAL", LOST, "No signal is handled.", NULL },
	{ "NCCL_RAS_ENABLE", LOST, "There is no RAS service; stalls are logged at WARN.", "0" },
	{ "NCCL_RAS_ADDR", LOST, "There is no RAS service.", NULL },
	{ "NCCL_RAS_TIMEOUT_FACTOR", LOST, "There is no RAS service.", NULL },
	{ "NCCL_NVTX_DISABLE", UNNEEDED, "Ranges exist only in builds with NVTX.", NULL },

	/* Not NCCL's */
	{ "NCCL_ASYNC_ERROR_HANDLING", OTHERS, "PyTorch's.", NULL },
	{ "NCCL_BLOCKING_WAIT", OTHERS, "PyTorch's.", NULL },
	{ "NCCL_DESYNC_DEBUG", OTHERS, "PyTorch's.", NULL },
	{ "NCCL_ENABLE_TIMING", OTHERS, "PyTorch's.", NULL },
	{ "NCCL_TRACE_BUFFER_SIZE", OTHERS, "PyTorch's.", NULL },
	{ "NCCL_TIMEOUT", OTHERS, "Scripts set it; CORALE_NCCL_TIMEOUT is a deadline for calls.", NULL },
	{ "NCCL_TESTS_*", OTHERS, "nccl-tests' own.", NULL },
	{ "NCCL_VERSION", OTHERS, "Container images set it.", NULL },
	{ "NCCL_HOME", OTHERS, "Where a build looks for NCCL.", NULL },
	{ "NCCL_ROOT", OTHERS, "Where a build looks for NCCL.", NULL },
	{ "NCCL_ROOT_DIR", OTHERS, "Where a build looks for NCCL.", NULL },
	{ "NCCL_INCLUDE_DIR", OTHERS, "Where a build looks for NCCL.", NULL },
	{ "NCCL_INCLUDE_DIRS", OTHERS, "Where a build looks for NCCL.", NULL },
	{ "NCCL_LIB_DIR", OTHERS, "Where a build looks for NCCL.", NULL },
	{ "NCCL_LIBRARY", OTHERS, "Where a build looks for NCCL.", NULL },
	{ "NCCL_LIBRARIES", OTHERS, "Where a build looks for NCCL.", NULL },
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

int door_env_rows(void)
{
	return ROWS;
}

const struct door_env_row *door_env_row(int i)
{
	return i >= 0 && i < ROWS ? &rows[i] : NULL;
}

static int is_name_of(const struct door_env_row *row, const char *name)
{
	size_t length = strlen(row->name);

	return row->name[length - 1] == '*' ? !strncmp(row->name, name, length - 1)
					    : !strcmp(row->name, name);
}

const struct door_env_row *door_env_find(const char *name)
{
	for (int i = 0; i < ROWS; i++)
		if (is_name_of(&rows[i], name))
			return &rows[i];
	return NULL;
}

const char *door_env_class_name(enum door_env_class class)
{
	static const char *const names[] = { "honoured", "mapped", "not needed", "lost", "not NCCL's" };

	return names[class];
}
