#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Short runs of the tests that need GPUs, one rank a GPU, as one node and as several: TAP from their PASS, FAIL and SKIP lines. Where
# there is no GPU all are skipped. By hand they take options and run longer: see the head of each test/gpus/cuda_*.c.
. "$top_srcdir/test/run/launcher-env.sh"
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
ranks=2
[ "$gpus" -gt 2 ] && ranks=$gpus
[ "$gpus" -gt 8 ] && ranks=8
. "$top_srcdir/test/run/tap.sh"
output=$scratch/output

tell() # RESULT TEXT
{
	number=$((number + 1))
	echo "$1 $number - $2"
}

check() # SECONDS NAME COMMAND...
{
	limit=$1 name=$2
	shift 2
	timeout -k 10 "$limit" "$@" </dev/null >"$output" 2>&1
	status=$?
	if [ $status = 77 ]; then
		tell ok "$name # SKIP $(sed -n 's/^SKIP [^ ]*: //p' "$output" | head -n 1)"
		return
	fi
	while IFS= read -r line; do
		case $line in
		"PASS "*) tell ok "$name: ${line#PASS }" ;;
		"FAIL "*) tell "not ok" "$name: ${line#FAIL }" ;;
		"SKIP "*)
			line=${line#SKIP }
			tell ok "$name: ${line%%: *} # SKIP ${line#*: }"
			;;
		FAULT*|corale:*) echo "# $line" ;;
		esac
	done <"$output"
	[ $status = 0 ] || tell "not ok" "$name: exit status $status"
}

# door SCRIPT: cases of the MPI door, with the buffers of its programs in the memory of GPUs.
door()
{
	if [ "$gpus" = 0 ]; then
		tell ok "$1 on GPUs # SKIP no CUDA device"
		return
	fi
	TEST_DEVICE=libcuda_device.so timeout -k 10 600 bash "$top_srcdir/test/pmpi/$1.sh" </dev/null >"$output" 2>&1
	status=$?
	while IFS= read -r line; do
		case $line in
		"ok "* | "not ok "*) tell "${line%%ok *}ok" "$1 on GPUs: ${line#*- }" ;;
		"#"*) echo "$line" ;;
		esac
	done <"$output"
	[ $status = 0 ] || tell "not ok" "$1 on GPUs: exit status $status"
}

# blocks POLICY: how many a kernel has at most, 0 for auto and 1 for efficient.
blocks()
{
	CORALE_DEBUG=info timeout -k 10 60 "$MPIRUN" -n $ranks "$top_builddir/examples/corale_all_reduce_perf" --device cuda \
		-b 8 -e 8 -n 1 -w 0 -x "$1" 2>&1 </dev/null |
		sed -n 's/.*GPU engine of .* at most \([0-9]*\) blocks a kernel.*/\1/p' | sort -n | tail -n 1
}

# The policy `efficient` leaves the GPU to others.
policy()
{
	if [ "$gpus" = 0 ]; then
		tell ok "the policy for blocks # SKIP no CUDA device"
		return
	fi
	all=$(blocks 0) few=$(blocks 1) given=$(CORALE_MAX_CTAS=16 blocks 1)
	[ "${few:-0}" -ge 1 ] && [ "$few" -le 8 ] && [ "${all:-0}" -gt 16 ] && [ "$given" = 16 ] || {
		tell "not ok" "the policy for blocks: auto '$all' blocks, efficient '$few', with 16 given '$given'"
		return
	}
	tell ok "the policy for blocks: auto $all blocks, efficient $few, with 16 given 16"
}

# nodes RANKS: every so many ranks of this host as a node of their own, with UCX between them.
nodes()
{
	over="over nodes of $1"
	if ! "$top_builddir/examples/corale-info" 2>/dev/null | grep -q '^  ucx  *used'; then
		tell ok "cuda_matrix, cuda_faults and cuda_stress $over # SKIP no UCX here"
		return
	fi
	check 120 "cuda_matrix $over" env CORALE_NODE_SIZE="$1" "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_matrix" --seconds 15
	check 300 "cuda_faults $over" env CORALE_NODE_SIZE="$1" "$top_builddir/test/gpus/cuda_faults" --ranks $ranks
	check 120 "cuda_stress $over" env CORALE_NODE_SIZE="$1" "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_stress" --seconds 1 --calls 5000
}

# adapter: ranks as nodes over an RDMA adapter in user space, with slots in the GPUs' memory, which a process of its own copies (docs/testing.md).
adapter()
{
	library=$top_builddir/test/fake_verbs/.libs/libfake_verbs.so over="over slots in GPU memory"
	set -- env FAKE_VERBS_COPIER="$scratch/copier" LD_PRELOAD="$library" UCX_TLS=rc_v OMPI_MCA_pml=ob1 OMPI_MCA_btl=^tcp,openib OMPI_MCA_memory=^patcher \
		CORALE_TRANSPORT=ucx CORALE_NET_DEVICES=fake0:1 CORALE_NODE_SIZE=1 CORALE_GPUDIRECT=yes
	if [ "$gpus" = 0 ] || [ ! -f "$library" ] || [ ! -x "$top_builddir/test/fake_verbs/fake_copier" ] ||
		! "$@" env -u FAKE_VERBS_COPIER "$top_builddir/examples/corale-info" 2>/dev/null | grep -q 'rc_verbs/fake0:1'; then
		tell ok "cuda_matrix and cuda_stress $over # SKIP no GPU, no UCX with verbs, or no <infiniband/verbs.h>"
		return
	fi
	"$top_builddir/test/fake_verbs/fake_copier" "$scratch/copier" </dev/null >"$scratch/copier.log" 2>&1 &
	copier=$!
	sleep 5 # until it listens
	check 120 "cuda_matrix $over" "$@" "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_matrix" --seconds 15 --memory 128
	check 120 "cuda_stress $over" "$@" "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_stress" --seconds 1 --calls 5000
	check 120 "replays of 64 KiB, no end read back, $over" "$@" FAKE_VERBS=late=no CORALE_GPUDIRECT_FLUSH=no \
		"$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_stress" --parts replayed --words 16384 --seconds 4 --calls 100000
	kill $copier
	sed 's/^/# /' "$scratch/copier.log"
}

policy
check 60 cuda_lines "$top_builddir/test/gpus/cuda_lines" --lines 1e8 --seconds 30
check 60 cuda_lines "$top_builddir/test/gpus/cuda_lines" --lines 1e6 --seconds 30 --halves
check 230 cuda_side "$top_builddir/test/gpus/cuda_side"
check 230 cuda_side "$top_builddir/test/gpus/cuda_side" --blocks 16,100,32,4
check 400 cuda_faults "$top_builddir/test/gpus/cuda_faults" --ranks $ranks
check 200 cuda_matrix "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_matrix" --seconds 30
# Everything lowered, and small messages by words.
check 200 cuda_matrix env CORALE_CODELETS=no "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_matrix" --seconds 30
check 200 cuda_matrix env CORALE_PROTO=LL "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_matrix" --seconds 20
check 400 cuda_faults env CORALE_CODELETS=no "$top_builddir/test/gpus/cuda_faults" --ranks $ranks
check 300 cuda_copies "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_copies" --largest 67108864
check 300 cuda_plans "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_plans" --plan "$top_builddir/examples/corale-plan"
check 200 cuda_stress "$MPIRUN" -n $ranks "$top_builddir/test/gpus/cuda_stress" --seconds 2 --calls 50000
door pmpi_cases
door pmpi_random
nodes 1
[ $ranks -ge 4 ] && nodes 2
adapter
echo "1..$number"
