#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Random programs of MPI with the MPI door and without: every byte that a rank receives is the same, whatever its buffers' memory; and no call hangs, though
# ranks have device buffers in other calls than their peers. TAP. TEST_SEED repeats the programs of a run.
. "$top_srcdir/test/run/launcher-env.sh"
door=$top_builddir/.libs/libcorale_pmpi.so
device=$top_builddir/.libs/${TEST_DEVICE:-libfake_device.so}
program=$top_builddir/test/pmpi/pmpi_random
[ -f "$door" ] && [ -x "$program" ] || { echo "1..0 # SKIP no MPI door in this build"; exit; }
. "$top_srcdir/test/run/tap.sh"
seed=${TEST_SEED:-$RANDOM}
echo "# TEST_SEED=$seed"

# run RANKS FILE MEMORY [VARIABLE=VALUE]...
run()
{
	local ranks=$1 file=$2 memory=$3
	shift 3
	env "$@" timeout -k 5 "$(busy_seconds "${limit:-60}")" "$MPIRUN" -n "$ranks" "$program" "$seed" 150 "$scratch/$file" "$memory" >"$scratch/log" 2>&1 </dev/null
}

same() # ranks
{
	local i
	for ((i = 0; i < $1; i++)); do
		cmp "$scratch/with.$i" "$scratch/without.$i" || return 1
	done
}

compare() # ranks, mode, memory, node size, calls before Corale has a communicator
{
	local preload=$door
	[ "$3" = host ] || preload=$door:$device
	rm -f "$scratch"/with.*
	run "$1" with "$3" LD_PRELOAD="$preload" CORALE_MPI="$2" CORALE_NODE_SIZE="$4" CORALE_MPI_AFTER="${5:-0}" && same "$1" >>"$scratch/log" 2>&1
	local status=$?
	result $status "$1 ranks, CORALE_MPI=$2, $3 memory, nodes of $4 (0: all)"
	[ $status = 0 ] || tail -n 20 "$scratch/log" | sed 's/^/# /'
}

# Open MPI 4.1.4 alone waits for ever in few of the programs (in a ring of Reduce_scatter between two ranks; seed 6317): then another one is drawn.
without() # ranks
{
	local turn limit=20
	for turn in 1 2 3 4 5; do
		run "$1" without host && return
		echo "# $1 ranks: the program of seed $seed does not end without the door"
		seed=$((seed + 1))
	done
	return 1
}

for ranks in 1 2 4; do
	without $ranks
	result $? "$ranks ranks without the door"
	compare $ranks device mixed 0
	compare $ranks all mixed 0
done
compare 4 device mixed 2
compare 4 host host 0 2
compare 4 off host 0
echo "1..$number"
