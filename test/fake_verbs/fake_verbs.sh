#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Ranks as nodes over an RDMA transport of UCX, rc_verbs, on a machine without RDMA: over the adapter of test/fake_verbs.
#   fake_verbs.sh                 TAP: tests of ranks, over it; with TEST_GPU_SLOTS_ALONE=1 only those of slots in GPUs' memory
#   fake_verbs.sh run COMMAND...  COMMAND over it, in the build directory
build=${top_builddir:-$PWD}
source=${top_srcdir:-$(dirname "$0")/../..}
adapter=$build/test/fake_verbs/.libs/libfake_verbs.so
export top_builddir="$build" top_srcdir="$source"

# A thread of UCX, for its file system, may end while a test forks: the child would wait for ever for a lock that it held (UCX 1.18 with libucs_fuse).
over()
{
	LD_PRELOAD=$adapter UCX_VFS_ENABLE=n UCX_TLS=rc_v CORALE_TRANSPORT=ucx CORALE_NET_DEVICES=fake0:1 "$@"
}

skip()
{
	echo "1..0 # SKIP $1"
	exit 0
}

# MPI may not take the adapter for its own, or keep UCX 1.13 from watching memory, without which it has no cache of registrations.
. "$source/test/run/launcher-env.sh"
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=^tcp,openib,ofi OMPI_MCA_memory=^patcher
if [ "$1" = run ]; then
	shift
	[ -f "$adapter" ] || { echo "fake_verbs.sh: there is no $adapter: run make check TESTS=, with <infiniband/verbs.h>" >&2; exit 1; }
	over "$@"
	exit
fi
[ -f "$adapter" ] || skip "no shared object of test/fake_verbs: there is no <infiniband/verbs.h>, or no shared libraries are built"
[ -n "$MPIRUN" ] || skip "this build has no MPI"
[ -x "$build/test/ranks/ranks_faults_ucx.mpi" ] || skip "this build has no UCX"

number=0
status=0
tell() # STATUS TEXT
{
	number=$((number + 1))
	[ "$1" = 0 ] && word=ok || { word="not ok" status=1; }
	echo "$word $number - $2"
}

# Passes on the cases of a test; none is a failure.
pass_on() # NAME COMMAND...
{
	name=$1
	shift
	over "$@" >"$scratch/tap" 2>"$scratch/errors" </dev/null
	ended=$?
	cases=0
	while IFS= read -r line; do
		case $line in
		"ok "*) tell 0 "$name: ${line#*- }" ;;
		"not ok "*) tell 1 "$name: ${line#*- }" ;;
		"1.."*) continue ;;
		*) echo "# $line"; continue ;;
		esac
		cases=$((cases + 1))
	done <"$scratch/tap"
	[ $ended = 0 ] && [ $cases -gt 0 ]
	tell $? "$name: $cases cases, status $ended"
	[ $ended = 0 ] || tail -n 40 "$scratch/errors" | sed 's/^/# /'
}

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
over "$build/examples/corale-info" >"$scratch/info" 2>&1
grep -q 'network devices  *rc_verbs/fake0:1' "$scratch/info"
tell $? "UCX has the adapter for a transport between nodes"
[ $status = 0 ] || sed 's/^/# /' "$scratch/info"
if grep -q '^  hwloc  *yes' "$scratch/info"; then
	CORALE_TOPO_FILE=$source/test/topologies/fake-verbs.xml over "$build/examples/corale-info" --net >"$scratch/info" 2>&1
	[ $? = 0 ] && grep -q '^  0000:14:00.0  *fake0:1; PIX' "$scratch/info" && ! grep -q "UCX can't open" "$scratch/info" &&
		grep -q '^  UCX  *by nvidia-peermem' "$scratch/info"
	tell $? "corale-info --net: the adapter of a GPU, and UCX opens it for GPUDirect"
	CORALE_TOPO_FILE=$source/test/topologies/fake-verbs.xml FAKE_VERBS=peermem=no over "$build/examples/corale-info" --net >"$scratch/info" 2>&1
	grep -q "^  - UCX can't register a GPU's memory.*nvidia-peermem" "$scratch/info"
	tell $? "corale-info --net: without nvidia-peermem it says what to do"
	[ $status = 0 ] || sed 's/^/# /' "$scratch/info"
fi
ranks()
{
	TEST_SHAPES=$2 pass_on "$1" bash "$source/test/run/run-ranks.sh" "$build/test/ranks/$1.mpi"
}
export TEST_UNTIMED=1
if [ -z "$TEST_GPU_SLOTS_ALONE" ]; then
	ranks ranks_matrix "2:1 4:2 4:1 5:2"
	ranks ranks_faults_ucx "2:1"
	ranks ranks_proxy "2:0 3:0"
fi
export TEST_GPU_SLOTS=1
ranks ranks_proxy "2:0 3:0"
unset TEST_GPU_SLOTS TEST_UNTIMED

# What communicators come to: by faults and settings, and what rank 0's log must say. A node is one rank, but in the last.
gpudirect() # RANKS:NODE EXPECTED [VARIABLE=VALUE...]
{
	shape=$1 expected=$2
	shift 2
	name="$* $shape"
	UCX_LOG_LEVEL=fatal TEST_EXPECT=$expected TEST_NAME="${name# }: $expected" TEST_SHAPES=$shape \
		pass_on ranks_gpudirect env "$@" bash "$source/test/run/run-ranks.sh" "$build/test/ranks/ranks_gpudirect.mpi"
}
if [ -x "$build/test/ranks/ranks_gpudirect.mpi" ]; then
	machines=$source/test/topologies
	gpudirect 2:1 any # no way between GPU and adapter is known, so rates decide
	gpudirect 2:1 "pinned:SYS" "CORALE_TOPO_FILE=$machines/fake-far.xml"
	export CORALE_TOPO_FILE="$machines/fake-near.xml"
	gpudirect 2:1 "direct:did not see all bytes"
	gpudirect 2:1 direct FAKE_VERBS=late=no
	gpudirect 2:1 "direct:reads their ends back" TEST_OLD_GPU=1
	gpudirect 2:1 "direct:reads their ends back" CORALE_GPUDIRECT_FLUSH=yes
	gpudirect 2:1 "pinned:did not see all bytes" CORALE_GPUDIRECT_FLUSH=no
	gpudirect 2:1 pinned CORALE_GPUDIRECT=no
	gpudirect 2:1 direct CORALE_GPUDIRECT=yes
	gpudirect 2:1 "error:CORALE_GPUDIRECT=yes: rail 0: rank 1" CORALE_GPUDIRECT=yes "FAKE_VERBS=rank=1 register_gpu=no"
	gpudirect 2:1 "pinned:rank 1" "FAKE_VERBS=rank=1 register_gpu=no"
	gpudirect 2:1 "pinned:nvidia-peermem" "FAKE_VERBS=peermem=no dmabuf=no"
	gpudirect 2:1 "pinned:did not start" TEST_BUSY_GPU=1
	gpudirect 2:1 direct CORALE_RAILS=2
	if grep -q 'UCX 1\.13\.' "$scratch/info"; then # without its cache of registrations it would register each message
		gpudirect 2:1 pinned UCX_MEM_EVENTS=n
	fi
	gpudirect 3:1 direct TEST_OLD_GPU=1
	gpudirect 3:2 direct TEST_OLD_GPU=1
	unset CORALE_TOPO_FILE
fi
export CMOCKA_MESSAGE_OUTPUT=TAP
if [ -x "$build/test/net/gpu_slot_test" ]; then
	UCX_LOG_LEVEL=fatal pass_on gpu_slot_test "$build/test/net/gpu_slot_test"
fi
for test in gpu_transport_test gpu_order_test gpu_death_test; do
	if [ -x "$build/test/net/$test" ]; then
		UCX_LOG_LEVEL=fatal pass_on $test "$build/test/net/$test"
	fi
done
if [ -x "$build/test/health/death_test" ]; then
	pass_on death_test "$build/test/health/death_test" "killed, on another node"
	pass_on death_test "$build/test/health/death_test" "stopped for a second, on another node"
fi
echo "1..$number"
exit $status
