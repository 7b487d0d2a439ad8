/* SPDX-License-Identifier: BSD-3-Clause */
#include "env_table.h"

#include <string.h>

/* Rows: name, what happens here; of a variable that is lost also its harmless value. */
#define ROW(name, class, here, harmless)                                                                     \
	{                                                                                                    \
		name, class, here, harmless                                                                  \
	}
#define HONOURED(name, here) ROW(name, DOOR_ENV_HONOURED, here, NULL)
#define MAPPED(name, here) ROW(name, DOOR_ENV_MAPPED, here, NULL)
#define UNNEEDED(name, here) ROW(name, DOOR_ENV_NOT_NEEDED, here, NULL)
#define LOST(name, here, harmless) ROW(name, DOOR_ENV_LOST, here, harmless)
#define OTHERS(name, here) ROW(name, DOOR_ENV_NOT_NCCLS, here, NULL)

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
	"captured calls as soon as they are mapped. CORALE_ZERO_COPY=no turns that off."
#define NO_NVLS "No algorithm uses NVLink SHARP."
#define NO_PLUGIN "No plugin is loaded."
#define REMOVED "NCCL has removed it."
#define BLOCK_LIMIT "Limits the blocks of a kernel; the lower one of the two limits counts."
#define BLOCK_MINIMUM "Raises the default limit of blocks; the planner may take fewer for small calls."

const struct door_env_row door_env_rows[] = {
	/* Bootstrap */
	HONOURED("NCCL_SOCKET_IFNAME", "Chooses the interfaces of the bootstrap and of tcp between nodes: "
				       "prefixes, ^ excludes, = names exactly."),
	HONOURED("NCCL_SOCKET_FAMILY", "AF_INET or AF_INET6, for the bootstrap and for tcp between nodes; "
				       "another text is not used, as by NCCL."),
	HONOURED("NCCL_COMM_ID", "host:port where rank 0 listens; the id is derived from this text."),
	HONOURED("NCCL_CONF_FILE", "File of KEY=VALUE lines, read instead of ~/.nccl.conf."),
	UNNEEDED("NCCL_SOCKET_RETRY_CNT",
		 "The bootstrap tries to connect until CORALE_NCCL_INIT_TIMEOUT has passed."),
	UNNEEDED("NCCL_SOCKET_RETRY_SLEEP_MSEC",
		 "The bootstrap tries to connect until CORALE_NCCL_INIT_TIMEOUT has passed."),
	UNNEEDED("NCCL_SOCKET_POLL_TIMEOUT_MSEC", "The bootstrap sleeps in poll."),
	UNNEEDED("NCCL_SOCKET_MAGIC", "The key in the id keeps strangers out of the bootstrap."),
	UNNEEDED("NCCL_OOB_NET_ENABLE", "The bootstrap runs over TCP."),
	UNNEEDED("NCCL_OOB_NET_IFNAME", "The bootstrap runs over TCP, on NCCL_SOCKET_IFNAME."),
	UNNEEDED("NCCL_UID_STAGGER_RATE", "The bootstrap needs no pause between connections."),
	UNNEEDED("NCCL_UID_STAGGER_THRESHOLD", "The bootstrap needs no pause between connections."),
	UNNEEDED("NCCL_REPORT_CONNECT_PROGRESS", "Creation names the ranks that are missing, at WARN."),
	UNNEEDED("NCCL_RUNTIME_CONNECT", "Creation makes all connections."),

	/* Hosts and processes */
	HONOURED("NCCL_HOSTID", "Stands for the host's name, by which ranks of one machine are told apart."),
	LOST("NCCL_COMM_BLOCKING", "All communicators block.", "1"),
	LOST("NCCL_SET_THREAD_NAME", "Threads have no names of their own.", "0"),
	UNNEEDED("NCCL_IGNORE_CPU_AFFINITY", "Threads run where the process may run."),
	UNNEEDED("NCCL_MULTI_RANK_GPU_ENABLE", "Several ranks may always share a GPU."),

	/* Sockets as a network */
	UNNEEDED("NCCL_SOCKET_NTHREADS", RAILS),
	UNNEEDED("NCCL_NSOCKS_PERTHREAD", RAILS),
	UNNEEDED("NCCL_SOCKET_SNDBUF", "The kernel sizes the buffers of sockets; UCX_TCP_SNDBUF sets them."),
	UNNEEDED("NCCL_SOCKET_RCVBUF", "The kernel sizes the buffers of sockets; UCX_TCP_RCVBUF sets them."),
	UNNEEDED("NCCL_SOCKET_INLINE", "UCX cuts messages for sockets."),
	UNNEEDED("NCCL_SOCKET_MIN_TASKSIZE", "UCX cuts messages for sockets."),

	/* Networks */
	MAPPED("NCCL_NET",
	       "Socket leaves out RDMA adapters, IB leaves nothing else; names of plugins have no effect."),
	UNNEEDED("NCCL_NET_PLUGIN", NO_PLUGIN),
	UNNEEDED("NCCL_CROSS_NIC",
		 "Adapters of two GPUs meet in their order: the first of one and the first of the other."),
	UNNEEDED("NCCL_NETDEVS_POLICY", ADAPTERS),
	UNNEEDED("NCCL_NET_MERGE_LEVEL", ADAPTERS),
	UNNEEDED("NCCL_NET_MERGE_POLICY", ADAPTERS),
	UNNEEDED("NCCL_NET_FORCE_MERGE", ADAPTERS),
	UNNEEDED("NCCL_NET_SHARED_BUFFERS",
		 "Communicators of a process share connections, and have buffers of their own."),
	UNNEEDED("NCCL_NET_SHARED_COMMS",
		 "Communicators of a process share connections, and have buffers of their own."),
	UNNEEDED("NCCL_IGNORE_NET_MISMATCH", "Ranks may have different adapters; what they share is used."),
	UNNEEDED("NCCL_NCHANNELS_PER_NET_PEER", RAILS),
	MAPPED(
	    "NCCL_NET_GDR_LEVEL",
	    "LOC becomes CORALE_GPUDIRECT=no; of other paths it is tried whether they work and are faster."),
	UNNEEDED("NCCL_NET_GDR_READ", GPUDIRECT),
	UNNEEDED("NCCL_NET_GDR_C2C", GPUDIRECT),
	UNNEEDED("NCCL_NET_DISABLE_INTRA", "No network carries data inside a node."),
	MAPPED("NCCL_NET_FORCE_FLUSH",
	       "1 becomes CORALE_GPUDIRECT_FLUSH=yes; else adapters read back where the GPU needs it."),
	UNNEEDED("NCCL_DMABUF_ENABLE", "UCX chooses how an adapter reaches a GPU's memory."),
	UNNEEDED("NCCL_GDRCOPY_ENABLE", "The host writes nothing into GPUs' memory."),
	UNNEEDED("NCCL_PXN_DISABLE", NO_PXN),
	UNNEEDED("NCCL_PXN_C2C", NO_PXN),
	UNNEEDED("NCCL_P2P_PXN_LEVEL", NO_PXN),
	UNNEEDED("NCCL_COLLNET_ENABLE", NO_COLLNET),
	UNNEEDED("NCCL_COLLNET_NODE_THRESHOLD", NO_COLLNET),
	UNNEEDED("NCCL_IGNORE_COLLNET_MISMATCH", NO_COLLNET),
	UNNEEDED("NCCL_ALLOC_P2P_NET_LL_BUFFERS", PLANNER),
	UNNEEDED("NCCL_P2P_NET_CHUNKSIZE", PLANNER),
	UNNEEDED("NCCL_SYM_GIN_KERNELS_ENABLE", "No kernel sends to other hosts: threads of the library do."),
	UNNEEDED("NCCL_MNNVL_ENABLE", NO_MNNVL),
	UNNEEDED("NCCL_MNNVL_UUID", NO_MNNVL),
	UNNEEDED("NCCL_MNNVL_CLIQUE_ID", NO_MNNVL),

	/* InfiniBand and RoCE */
	HONOURED("NCCL_IB_DISABLE", "1 leaves out RDMA adapters."),
	HONOURED("NCCL_IB_HCA", "Names the RDMA adapters and ports: prefixes, ^ excludes, = names exactly."),
	MAPPED("NCCL_IB_TIMEOUT",
	       "Becomes UCX's RC_TIMEOUT, 4.096 us times 2 to this power, unless UCX_RC_TIMEOUT is set."),
	MAPPED("NCCL_IB_RETRY_CNT", "Becomes UCX's RC_RETRY_COUNT, unless UCX_RC_RETRY_COUNT is set."),
	MAPPED("NCCL_IB_GID_INDEX",
	       "Becomes UCX's IB_GID_INDEX, unless UCX_IB_GID_INDEX is set; -1: UCX chooses."),
	UNNEEDED("NCCL_IB_ADDR_FAMILY", GID),
	UNNEEDED("NCCL_IB_ADDR_RANGE", GID),
	UNNEEDED("NCCL_IB_ROCE_VERSION_NUM", GID),
	MAPPED("NCCL_IB_SL", "Becomes UCX's IB_SL, unless UCX_IB_SL is set."),
	MAPPED("NCCL_IB_TC", "Becomes UCX's IB_TRAFFIC_CLASS, unless UCX_IB_TRAFFIC_CLASS is set."),
	UNNEEDED("NCCL_IB_FIFO_TC", "All messages have the class of NCCL_IB_TC."),
	LOST("NCCL_IB_PKEY",
	     "UCX uses the partition that UCX_IB_PKEY names by its value, else the first one.", "0"),
	UNNEEDED("NCCL_IB_QPS_PER_CONNECTION", RAILS),
	UNNEEDED("NCCL_IB_SPLIT_DATA_ON_QPS", RAILS),
	UNNEEDED("NCCL_IB_PCI_RELAXED_ORDERING",
		 "Off where adapters write GPUs' memory; else UCX chooses, or UCX_IB_PCI_RELAXED_ORDERING."),
	UNNEEDED("NCCL_IB_ADAPTIVE_ROUTING", "UCX_IB_AR_ENABLE sets it."),
	UNNEEDED("NCCL_IB_AR_THRESHOLD", "UCX_IB_AR_ENABLE sets adaptive routing."),
	UNNEEDED("NCCL_IB_ECE_ENABLE", "UCX makes the connections."),
	UNNEEDED("NCCL_IB_MERGE_NICS", ADAPTERS),
	UNNEEDED("NCCL_IB_OOO_RQ", "UCX makes the connections."),
	UNNEEDED("NCCL_IB_RETURN_ASYNC_EVENTS",
		 "A connection that fails is an error of the calls that need it."),
	UNNEEDED("NCCL_IB_DATA_DIRECT", "UCX chooses how an adapter reaches a GPU's memory."),
	LOST("NCCL_IB_RESILIENCY_PORT_FAILOVER", "A connection that fails ends the communicator.", "0"),
	LOST("NCCL_IB_RESILIENCY_PORT_RECOVERY", "A connection that fails ends the communicator.", "0"),
	UNNEEDED("NCCL_IB_CUDA_SUPPORT", REMOVED),

	/* Between GPUs of a host */
	HONOURED("NCCL_P2P_DISABLE",
		 "1: the GPUs of a host exchange data through host memory that its ranks share; with "
		 "CORALE_HOST_WINDOW=0 or NCCL_SHM_DISABLE=1 each is a node of its own, by UCX."),
	LOST("NCCL_P2P_LEVEL", "GPUs reach each other's memory wherever the driver allows it.", "SYS"),
	UNNEEDED("NCCL_IGNORE_DISABLED_P2P",
		 "GPUs that can't reach each other's memory are on nodes of their own; nothing fails."),
	UNNEEDED("NCCL_P2P_DIRECT_DISABLE", "Ranks of one process use no path of their own."),
	UNNEEDED("NCCL_P2P_READ_ENABLE", PLANNER),
	UNNEEDED("NCCL_P2P_USE_CUDA_MEMCPY", PLANNER),
	HONOURED("NCCL_SHM_DISABLE", "1: each rank in host memory is a node of its own; nodes of one host, "
				     "GPUs' too, share no memory."),
	UNNEEDED("NCCL_SHM_USE_CUDA_MEMCPY",
		 "GPUs without access to each other exchange data through host memory by kernels."),
	UNNEEDED("NCCL_NVB_DISABLE", "No GPU passes on data of two others."),
	UNNEEDED("NCCL_NVLS_ENABLE", NO_NVLS),
	UNNEEDED("NCCL_NVLS_CHUNKSIZE", NO_NVLS),
	UNNEEDED("NCCL_NVLS_NCHANNELS", NO_NVLS),
	UNNEEDED("NCCL_CUMEM_ENABLE", "The library chooses how to share GPU memory between processes."),
	UNNEEDED("NCCL_CUMEM_HOST_ENABLE",
		 "GPUs without access to each other exchange data through host memory by kernels."),
	UNNEEDED("NCCL_IPC_USE_ABSTRACT_SOCKET",
		 "The library chooses how processes pass each other descriptors."),

	/* Algorithms and resources */
	MAPPED("NCCL_ALGO", "Tree or Ring alone, with NCCL_PROTO=Simple and one channel, means sums in rank "
			    "order; else the planner chooses."),
	MAPPED(
	    "NCCL_PROTO",
	    "LL, LL128 or Simple alone becomes CORALE_PROTO=LL, LL128 or FIFO; other values have no effect."),
	MAPPED("NCCL_MAX_CTAS", BLOCK_LIMIT),
	MAPPED("NCCL_MAX_NCHANNELS", BLOCK_LIMIT),
	MAPPED("NCCL_MAX_NRINGS", "Old name of NCCL_MAX_NCHANNELS, used where that is unset."),
	MAPPED("NCCL_MIN_CTAS", BLOCK_MINIMUM),
	MAPPED("NCCL_MIN_NCHANNELS", BLOCK_MINIMUM),
	MAPPED("NCCL_MIN_NRINGS", "Old name of NCCL_MIN_NCHANNELS, used where that is unset."),
	MAPPED("NCCL_CTA_POLICY", "DEFAULT, EFFICIENCY or ZERO alone (or 0, 1, 2) becomes "
				  "CORALE_CTA_POLICY=auto, efficient or zero."),
	UNNEEDED("NCCL_MAX_P2P_NCHANNELS", PLANNER),
	UNNEEDED("NCCL_MIN_P2P_NCHANNELS", PLANNER),
	UNNEEDED("NCCL_BUFFSIZE", "CORALE_NCCL_WINDOW sets the memory of a communicator."),
	UNNEEDED("NCCL_LL_BUFFSIZE", "CORALE_NCCL_WINDOW sets the memory of a communicator."),
	UNNEEDED("NCCL_LL128_BUFFSIZE", "CORALE_NCCL_WINDOW sets the memory of a communicator."),
	UNNEEDED("NCCL_NTHREADS", "Each kernel has a block size of its own."),
	UNNEEDED("NCCL_LL128_NTHREADS", "Each kernel has a block size of its own."),
	UNNEEDED("NCCL_CGA_CLUSTER_SIZE", "Kernels use no clusters."),
	UNNEEDED("NCCL_P2P_NVL_CHUNKSIZE", PLANNER),
	UNNEEDED("NCCL_P2P_PCI_CHUNKSIZE", PLANNER),
	UNNEEDED("NCCL_P2P_LL_THRESHOLD", PLANNER),
	UNNEEDED("NCCL_PAT_ENABLE", PLANNER),
	UNNEEDED("NCCL_SYM_KERNEL", PLANNER),
	UNNEEDED("NCCL_SYM_CTAS", PLANNER),
	UNNEEDED("NCCL_SYM_CE_THRESHOLD", PLANNER),
	UNNEEDED("NCCL_LL_THRESHOLD", REMOVED),
	UNNEEDED("NCCL_TREE_THRESHOLD", REMOVED),
	UNNEEDED("NCCL_SINGLE_RING_THRESHOLD", REMOVED),
	UNNEEDED("NCCL_WIN_ENABLE", "No windows are made: ncclCommWindowRegister gives NULL."),
	UNNEEDED("NCCL_GRAPH_REGISTER", REGISTRATION),
	UNNEEDED("NCCL_LOCAL_REGISTER", REGISTRATION),
	UNNEEDED("NCCL_LEGACY_CUDA_REGISTER", REGISTRATION),
	UNNEEDED("NCCL_COMM_SPLIT_SHARE_RESOURCES", "A child has memory of its own."),
	UNNEEDED("NCCL_COMM_SHRINK_SHARE_RESOURCES", "A child has memory of its own."),

	/* Launches */
	LOST("NCCL_LAUNCH_ORDER_IMPLICIT",
	     "Calls of different communicators are ordered only by the program's streams and events.", "0"),
	UNNEEDED("NCCL_LAUNCH_RACE_FATAL", "It belongs to NCCL_LAUNCH_ORDER_IMPLICIT."),
	UNNEEDED("NCCL_LAUNCH_MODE", "Kernels are launched one a GPU, without cooperative groups."),
	LOST("NCCL_GRAPH_MIXING_SUPPORT",
	     "The program orders replays of graphs and other calls, alike on all ranks.", "0"),
	LOST("NCCL_GRAPH_STREAM_ORDERING",
	     "The program orders replays of graphs and other calls, alike on all ranks.", "0"),
	UNNEEDED("NCCL_MEM_SYNC_DOMAIN", "Kernels run in the default memory domain."),
	UNNEEDED("NCCL_SET_STACK_SIZE", "Kernels need no stack that the CUDA context lacks."),
	UNNEEDED("NCCL_WORK_FIFO_BYTES", "Kernels get a call's facts as arguments."),

	/* Plugins */
	UNNEEDED("NCCL_TUNER_PLUGIN", PLANNER),
	LOST("NCCL_PROFILER_PLUGIN", NO_PLUGIN, "none"),
	LOST("NCCL_ENV_PLUGIN", NO_PLUGIN, "none"),

	/* Topology */
	LOST("NCCL_TOPO_FILE", "The library asks the driver for the topology.", NULL),
	LOST("NCCL_TOPO_DUMP_FILE", "No file is written.", NULL),
	UNNEEDED("NCCL_TOPO_DUMP_FILE_RANK", "It belongs to NCCL_TOPO_DUMP_FILE."),
	LOST("NCCL_GRAPH_FILE", "The planner makes every plan itself.", NULL),
	LOST("NCCL_GRAPH_DUMP_FILE", "No file is written.", NULL),
	UNNEEDED("NCCL_GRAPH_DUMP_FILE_RANK", "It belongs to NCCL_GRAPH_DUMP_FILE."),

	/* Log and checks */
	HONOURED("NCCL_DEBUG", "VERSION, WARN, INFO or TRACE; CORALE_DEBUG overrides it; errors and warnings "
			       "are on stderr without it."),
	HONOURED("NCCL_DEBUG_FILE", "File of all lines, with %h and %p; a regular file or FIFO of the user's "
				    "own, a terminal, /dev/stdout or /dev/stderr."),
	HONOURED("NCCL_DEBUG_SUBSYS",
		 "Filters INFO lines as in NCCL; those of Corale itself are of subsystem TUNING."),
	LOST("NCCL_DEBUG_TIMESTAMP_FORMAT", "Lines have no time.", NULL),
	LOST("NCCL_DEBUG_TIMESTAMP_LEVELS", "Lines have no time.", NULL),
	LOST("NCCL_WARN_ENABLE_DEBUG_INFO", "A warning does not change the level.", "0"),
	LOST("NCCL_CHECK_POINTERS", "Buffers are not checked to be memory of this GPU.", "0"),
	LOST("NCCL_CHECK_MODE",
	     "Buffers are not checked to be memory of this GPU; ranks' calls are compared always.",
	     "DEFAULT"),
	UNNEEDED("NCCL_CHECKS_DISABLE", REMOVED),
	LOST("NCCL_PARAM_DUMP_ALL", "ncclParamDumpAll prints variables; creation does not.", "0"),
	LOST("NCCL_PROXY_DUMP_SIGNAL", "No signal is handled.", NULL),
	LOST("NCCL_RAS_ENABLE", "There is no RAS service; stalls are logged at WARN.", "0"),
	LOST("NCCL_RAS_ADDR", "There is no RAS service.", NULL),
	LOST("NCCL_RAS_TIMEOUT_FACTOR", "There is no RAS service.", NULL),
	UNNEEDED("NCCL_NVTX_DISABLE", "Ranges exist only in builds with NVTX."),

	/* Not NCCL's */
	OTHERS("NCCL_ASYNC_ERROR_HANDLING", "PyTorch's."),
	OTHERS("NCCL_BLOCKING_WAIT", "PyTorch's."),
	OTHERS("NCCL_DESYNC_DEBUG", "PyTorch's."),
	OTHERS("NCCL_ENABLE_TIMING", "PyTorch's."),
	OTHERS("NCCL_TRACE_BUFFER_SIZE", "PyTorch's."),
	OTHERS("NCCL_TIMEOUT", "Scripts set it; CORALE_NCCL_TIMEOUT is a deadline for calls."),
	OTHERS("NCCL_TESTS_*", "nccl-tests' own."),
	OTHERS("NCCL_VERSION", "Container images set it."),
	OTHERS("NCCL_HOME", "Where a build looks for NCCL."),
	OTHERS("NCCL_ROOT", "Where a build looks for NCCL."),
	OTHERS("NCCL_ROOT_DIR", "Where a build looks for NCCL."),
	OTHERS("NCCL_INCLUDE_DIR", "Where a build looks for NCCL."),
	OTHERS("NCCL_INCLUDE_DIRS", "Where a build looks for NCCL."),
	OTHERS("NCCL_LIB_DIR", "Where a build looks for NCCL."),
	OTHERS("NCCL_LIBRARY", "Where a build looks for NCCL."),
	OTHERS("NCCL_LIBRARIES", "Where a build looks for NCCL."),
	{ .name = NULL },
};

static int is_name_of(const struct door_env_row *row, const char *name)
{
	size_t length = strlen(row->name);

	return row->name[length - 1] == '*' ? !strncmp(row->name, name, length - 1)
					    : !strcmp(row->name, name);
}

const struct door_env_row *door_env_find(const char *name)
{
	const struct door_env_row *row = door_env_rows;
	while (row->name && !is_name_of(row, name))
		row++;
	return row->name ? row : NULL;
}

const char *door_env_class_name(enum door_env_class class)
{
	static const char *const names[] = { "honoured", "mapped", "not needed", "lost", "not NCCL's" };

	return names[class];
}
