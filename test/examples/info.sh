#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# corale-info: its sections, values with their origin, unknown names, malformed values, wrong arguments. TAP.
info=$top_builddir/examples/corale-info
. "${top_srcdir:-$(dirname "$0")/../..}/test/run/tap.sh"
for name in $(env | sed -n 's/^\(CORALE_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done

# has REGULAR-EXPRESSION DESCRIPTION: of the last output
has()
{
	printf '%s\n' "$output" | grep -Eq "$1"
	result $? "$2"
}

output=$("$info" 2>&1)
result $? "runs"
has '^corale [0-9]+\.[0-9]+\.[0-9]+$' "version"
has '^  compiler +[^ ]' "compiler"
has '^  CORALE_TIMEOUT +600 +default$' "a default"
has '^  cores +[1-9]' "cores"
has '^  +process_vm_readv +(works|refused|not)' "process_vm_readv"
has '^  +messages, just now +4 KB: [0-9.]+ us through a slot' "what messages take"
has '^  +shared windows \(memfd\) +works' "memfd"
has '^  cuda +[^ ]' "cuda, or why not"
has '^  ucx +[^ ]' "ucx, or why not"
has '^  mpi +[^ ]' "mpi, or why not"

output=$(CORALE_SLOTS=16 CORALE_TIMOUT=3 CORALE_TRANSPORT=mpi CORALE_REFERENCE=no "$info" 2>&1)
result $? "runs with settings"
has '^  CORALE_SLOTS +16 +environment$' "a value and its origin"
has '^  CORALE_TIMOUT +unknown.*CORALE_TIMEOUT' "an unknown name and the nearest one"
has '^  ucx +(not used: CORALE_TRANSPORT=mpi|.*no UCX)' "the transport that was asked for"
has '^  +process_vm_readv +not used: CORALE_REFERENCE=no' "no references"

output=$(CORALE_NET_DEVICES=lo "$info" 2>&1)
if printf '%s\n' "$output" | grep -q '^  ucx  *used'; then
	has '^    network devices +tcp/lo$' "the network devices that UCX opens"
	output=$(UCX_TLS=self,sm "$info" 2>&1)
	has '^    network devices +none$' "none without a network"
	has '^    GPUDirect RDMA +none: UCX ' "what GPUDirect RDMA would need"
fi

output=$(CORALE_SLOTS=many "$info" 2>&1)
[ $? = 1 ]
result $? "a malformed value is status 1"
has 'CORALE_SLOTS=many is malformed' "and is named"
has '^  cores +[1-9]' "and the rest is still told"
output=$(CORALE_TRANSPORT=tcp "$info" 2>&1)
[ $? = 1 ]
result $? "an unknown transport is status 1"
has 'CORALE_TRANSPORT=tcp is malformed: expected auto, ucx, mpi' "and those that there are, are named"

output=$("$info" --no-such-thing 2>&1)
[ $? = 2 ]
result $? "wrong arguments are status 2"
output=$(CORALE_NET_RATES="rail_us:3 rail_send_us:0.4" "$info")
has '^  rates  *rail_us:3 rail_send_us:0.4 ' "rates between nodes"
# ---- --net
trees=${top_srcdir:-$(dirname "$0")/../..}/test/topologies
output=$("$info" --net 2>&1)
result $? "--net runs"
has '^  PCI tree +[^ ]' "where its PCI tree is from"
has '^GPUs$' "GPUs, or none"
has '^  UCX +(none|by|not known)' "what UCX has for GPUDirect, or why not"
has '^  - .' "what is slow"
output=$(CORALE_NET_DEVICES=mlx5_0:1,mlx5_1:1 "$info" --net 2>&1)
has '^  mlx5_1:1 .*active' "adapters that only CORALE_NET_DEVICES knows"
output=$(CORALE_TOPO_FILE=/nowhere/x.xml "$info" --net 2>&1)
[ $? = 1 ]
result $? "a PCI tree that can't be read is status 1"
has 'CORALE_TOPO_FILE=/nowhere/x.xml can.t be read' "and is named"

# net TREE [VARIABLE=VALUE...]
net()
{
	tree=$1
	shift
	env CORALE_TOPO_FILE="$trees/$tree.xml" "$@" "$info" --net 2>&1
}

if "$info" | grep -q '^  hwloc  *yes'; then
	output=$(net dgx-h100)
	result $? "--net of another machine"
	has '^ +mlx5_0:1 +mlx5_1:1 +mlx5_3:1' "a column each active port"
	has '^  0000:1b:00.0 +PIX +PHB +PHB +PHB +PHB +SYS' "a row each GPU"
	has '^  0000:df:00.0 +mlx5_11:1; PIX: through one PCIe switch; near enough' "the adapter of a GPU"
	has '^  - mlx5_2:1 is not active' "a port that is down"
	output=$(net hgx-4-adapters)
	has '^  - mlx5_0:1 carries the messages of 2 GPUs' "a shared adapter"
	output=$(net adapters-on-one-socket)
	has '^  0000:84:00.0 +mlx5_1:1; SYS: .*; too far for GPUDirect' "a GPU without an adapter near it"
	has '^  - GPU 0000:83:00.0 and 1 more: each has no adapter on its NUMA node' "and the reason"
	output=$(net workstation)
	has '^  - GPU 0000:01:00.0 reaches its adapter through a host bridge' "a host bridge"
	output=$(net hgx-4-adapters NCCL_IB_HCA=^mlx5_3)
	result $? "NCCL_IB_HCA"
	has '^  mlx5_3:1 .*not used: CORALE_NET_DEVICES or NCCL_IB_HCA' "leaves an adapter out"
	has '^  0000:b3:00.0 +mlx5_2:1; PHB' "and the next one is used"
	output=$(net hgx-4-adapters NCCL_IB_HCA=^=mlx5_3,mlx5_2:x)
	[ $? = 1 ]
	result $? "a malformed list of adapters is status 1"
	has 'NCCL_IB_HCA=.*mlx5_2:x. is not name' "and is named"
	output=$(net hgx-4-adapters NCCL_IB_HCA==mlx5_9)
	[ $? = 1 ]
	result $? "a list that leaves no adapter is status 1"
	has 'leaves no RDMA adapter: active ports of this machine are mlx5_0:1,mlx5_1:1' "and says what there is"
fi

# rank LOCAL-RANK RANKS: as a launcher starts it
rank()
{
	PMIX_NAMESPACE=info.$$ OMPI_COMM_WORLD_RANK=$(($1 + 4)) OMPI_COMM_WORLD_LOCAL_RANK=$1 OMPI_COMM_WORLD_LOCAL_SIZE=$2 \
		timeout 60 "$info" --net 2>&1
}
others=$scratch/others
rank 2 3 >>"$others" &
CORALE_NET_DEVICES=mlx5_7:1 rank 1 3 >>"$others" &
output=$(rank 0 3)
wait
[ ! -s "$others" ]
result $? "other ranks of a host print nothing"
[ "$(printf '%s\n' "$output" | sed -n 's/^  rank \([0-9]*\) .*/\1/p' | tr '\n' ' ')" = "4 5 6 " ]
result $? "its first rank prints what they see, in order"
has '^  - Rank 5 sees other adapters' "and that they see different adapters"
output=$(rank 0 2)
has '^  local rank 1 +has said nothing' "a rank that doesn't answer"

# Ranks that see a GPU each, in another order than the local one; the second one sees none.
if "$info" | grep -q '^  hwloc  *yes'; then
	info=$top_builddir/test/examples/fake_info
	export CORALE_TOPO_FILE="$trees/adapters-on-one-socket.xml"
	FAKE_GPUS=00000000:83:00.0 rank 2 4 >>"$others" &
	rank 1 4 >>"$others" &
	FAKE_GPUS=0000:14:00.0,0000:13:00.0 rank 3 4 >>"$others" &
	output=$(FAKE_GPUS=0000:84:00.0 rank 0 4)
	wait
	has '^  0000:84:00.0 +Fake GPU$' "a GPU that CUDA shows"
	has '^  0000:14:00.0 +of the PCI tree' "and one that it doesn't show"
	has '^  rank 4 0000:84:00.0 +mlx5_1:1; SYS' "the adapter of a rank's GPU"
	has '^  rank 5 +sees no GPU' "a rank without"
	has '^  rank 6 0000:83:00.0 +mlx5_0:1; SYS' "another one's"
	has '^  rank 7 0000:13:00.0 +mlx5_0:1,mlx5_1:1; PIX' "by local rank of two"
	unset CORALE_TOPO_FILE
	info=$top_builddir/examples/corale-info
fi

output=$("$info" --help)
result $? "--help"
has '^Usage: corale-info' "usage"
echo "1..$number"
