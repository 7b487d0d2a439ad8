#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Messages of device memory by peer copies (CORALE_MPI_PEER): random programs (test/pmpi/pmpi_peer.c), and the scenes of test/pmpi/pmpi_p2p.c with each message of 4 bytes or more
# by a header. TAP. TEST_SEED repeats the programs of a run, TEST_RUNS=N makes N of each number of ranks.
. "$top_srcdir/test/run/launcher-env.sh"
# Open MPI's own truncated messages end the program otherwise.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
program=$top_builddir/test/pmpi/pmpi_peer
scenes=$top_builddir/test/pmpi/pmpi_p2p.mpi
[ -x "$program" ] && [ -x "$scenes" ] || { echo "1..0 # SKIP no MPI door in this build"; exit; }
. "$top_srcdir/test/run/tap.sh"
reasons=$scratch/log
seed=${TEST_SEED:-$RANDOM}
echo "# TEST_SEED=$seed"

# run RANKS [VARIABLE=VALUE]... COMMAND...
run()
{
	local ranks=$1
	shift
	timeout -k 5 "$(busy_seconds 40)" "$MPIRUN" -n "$ranks" env TEST_CASE_SECONDS="$(busy_seconds 30)" "$@" >"$scratch/log" 2>&1 </dev/null
}

for ranks in 2 3 4; do
	for ((turn = 0; turn < ${TEST_RUNS:-1}; turn++)); do
		run $ranks "$program" $((seed + turn)) 10
		result $? "$ranks ranks, the random programs of seed $((seed + turn))"
	done
done

peer="CORALE_MPI_PEER=yes CORALE_MPI_PEER_LEAST=4 CORALE_MPI_PEER_EAGER=0 CORALE_DEBUG=info"
# shellcheck disable=SC2086 # words
run 2 $peer CORALE_MPI_PEER_WAIT_US=1000 "$scenes" peer && grep -qE 'rank 1: messages by peer copies: [1-9][0-9]* sent, [1-9][0-9]* .*; [1-9][0-9]* received' "$scratch/log"
result $? "2 ranks, the scenes of point to point"
run 2 CORALE_MPI_PEER=yes CORALE_DEBUG=info "$program"_cases && grep -qE 'rank 1: messages by peer copies: .* [1-9][0-9]+ within the GPU' "$scratch/log"
result $? "cases"
run 2 CORALE_MPI_PEER=yes CORALE_MPI_PEER_LEAST=4 CORALE_MPI_PEER_EAGER=0 "$program"_cases
result $? "cases; no message is copied at once"
run 2 CORALE_MPI_PEER=yes CORALE_MPI_PEER_LEAST=4 CORALE_MPI_PEER_EAGER=0 CORALE_DEBUG=info FAKE_DEVICE_UNREACHED=1 "$program"_cases &&
	grep -qE 'rank 1: messages by peer copies: ([0-9]+) sent, \1 of them copied' "$scratch/log"
result $? "memory that peers can't map: messages are copied first"
run 2 CORALE_MPI_PEER=yes CORALE_DEBUG=info FAKE_DEVICE_UNEXPORTED=1 "$program"_cases &&
	grep -qE 'rank 1: messages by peer copies: .* [1-9][0-9]+ within the GPU' "$scratch/log"
result $? "memory without a handle: messages are copied within the GPU"
run 2 CORALE_MPI_PEER=yes FAKE_DEVICE_UNREACHED=1 FAKE_DEVICE_UNPINNED=1 "$program"_cases
result $? "the same, and shared memory that devices don't reach"

run 2 CORALE_MPI_PEER=yes "$program"_types
result $? "types of all shapes"
run 2 CORALE_MPI_PEER=yes CORALE_MPI_PEER_LEAST=4 CORALE_MPI_PEER_EAGER=0 FAKE_DEVICE_UNREACHED=1 "$program"_types
result $? "types of all shapes, of memory that peers can't map"

for wait in 0 1000; do
	run 2 CORALE_MPI_PEER=yes CORALE_MPI_PEER_LEAST=4 CORALE_MPI_PEER_EAGER=0 CORALE_MPI_PEER_WAIT_US=$wait CORALE_DEBUG=info "$program"_threads "$seed" &&
		grep -qE 'rank 1: messages by peer copies: [1-9]' "$scratch/log"
	result $? "threads; senders wait $wait us"
done

# dies CASE LINE: the other rank ends within a second.
dies()
{
	case $("$MPIRUN" --version 2>&1) in
	*"Open MPI"* | *OpenRTE*)
		timeout -k 5 "$(busy_seconds 40)" "$MPIRUN" --enable-recovery -n 2 env TEST_CASE_SECONDS="$(busy_seconds 30)" CORALE_MPI_PEER=yes "$program"_cases "$1" >"$scratch/log" 2>&1 </dev/null
		grep -qE "$2" "$scratch/log"
		result $? "$1: the other rank's call ends within a second"
		;;
	*)
		number=$((number + 1))
		echo "ok $number - $1 # SKIP MPICH's launcher ends the other ranks"
		;;
	esac
}
dies sender_dies '^rank 1: error ([0-9]+) \(\1\) after 0\.'
dies receiver_dies '^rank 0: error 0 after 0\.'
echo "1..$number"
