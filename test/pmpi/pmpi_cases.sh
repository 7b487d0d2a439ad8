#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that the MPI door must not change (test/pmpi/pmpi_cases.c), with device buffers; a rank that dies; programs of Fortran; a door that is built for another
# MPI. TAP.
. "$top_srcdir/test/run/launcher-env.sh"
door=$top_builddir/.libs/libcorale_pmpi.so
device=$top_builddir/.libs/${TEST_DEVICE:-libfake_device.so}
program=$top_builddir/test/pmpi/pmpi_cases
[ -f "$door" ] && [ -x "$program" ] || { echo "1..0 # SKIP no MPI door in this build"; exit; }
. "$top_srcdir/test/run/tap.sh"
reasons=$scratch/log

# run RANKS [VARIABLE=VALUE]... COMMAND...
run()
{
	local ranks=$1
	shift
	timeout -k 5 "$(busy_seconds 60)" "$MPIRUN" $recovery -n "$ranks" env LD_PRELOAD="$door:$device" TEST_CASE_SECONDS="$(busy_seconds 45)" "$@" >"$scratch/log" 2>&1 </dev/null
}

recovery=
for ranks in 1 2 4; do
	run $ranks CORALE_MPI_COMMS=5 CORALE_MPI_AFTER=0 "$program"
	result $? "$ranks ranks, device buffers"
	run $ranks CORALE_MPI_COMMS=5 "$program"
	result $? "$ranks ranks, device buffers, MPI has the first calls on each communicator"
	run $ranks CORALE_MPI=all CORALE_NODE_SIZE=2 CORALE_MPI_COMMS=5 CORALE_MPI_AFTER=0 "$program"
	result $? "$ranks ranks, CORALE_MPI=all, nodes of 2"
done
! grep -q "still there" "$scratch/log"
result $? "communicators that are there at MPI_Finalize end without a line"

# Finalize's table: sizes, what became of the calls, and why.
run 2 CORALE_DEBUG=info "$program" user_operator
grep -qE 'rank 0: MPI_Allreduce +< 4 KB +0 \(.* +1 \(.* +0 \(.*\)  staged: type or operator 1$' "$scratch/log" &&
	grep -qE 'rank 0: MPI_Allreduce +< 16 B +.*  staged: type or operator 1; passed on: host memory 2$' "$scratch/log"
result $? "the table of MPI_Finalize says of calls that were not routed why"
run 2 CORALE_DEBUG=info "$program" late_device
grep -qE 'rank 0: MPI_Allreduce +< 256 B .*staged: no vote yet [0-9]+; passed on: host memory [0-9]+$' "$scratch/log" &&
	grep -qE 'of [0-9]+ bytes of collectives that Corale can run, [0-9.]+ % were routed' "$scratch/log"
result $? "the table has the share of bytes that were routed"

# 5 - 2, and 20 behind the wishes at 3, 5 and 8 calls, of which none is granted, and 13
run 2 CORALE_DEBUG=info "$program" few_calls
grep -qE 'rank 0: MPI_Allreduce +< 4 KB +11 \(.* +24 \(.*\)  staged: .*no communicator of Corale 24' "$scratch/log"
result $? "MPI runs the first calls on a communicator, more after communicators of few calls"
run 2 CORALE_DEBUG=info CORALE_MPI_AFTER=0 "$program" few_calls
grep -qE 'rank 0: MPI_Allreduce +< 4 KB +35 \(.* +0 \(' "$scratch/log"
result $? "CORALE_MPI_AFTER=0: none"

run 2 "$program" reduce_local
[ "$(grep -c 'WARN.* rank 0: MPI_Reduce_local of a device buffer goes through host memory' "$scratch/log")" = 1 ]
result $? "a call that goes through host memory says so once"

# Ranks that differ in size by a root's and its leaves' own word, of which one may be 0.
for mode in device all; do
	for nodes in 0 2; do
		run 3 CORALE_MPI=$mode CORALE_MPI_AFTER=0 CORALE_NODE_SIZE=$nodes CORALE_DEBUG=error "$program" sizes
		[ $? = 0 ] && grep -q "rank 0 called broadcast(count 296, int8, root 0); rank 1, 2 called broadcast(count 200, int8, root 0)" "$scratch/log"
		result $? "calls of other sizes, CORALE_MPI=$mode, nodes of $nodes (0: all): errors within a second, a line with both"
	done
done

for nodes in 0 2; do
	run 3 CORALE_MPI_AFTER=0 CORALE_NODE_SIZE=$nodes CORALE_DEBUG=error "$program" left_to_mpi
	grep -qE "^rank 0: error [1-9][0-9]* after [01]\.[0-9]* s, 0 wrong" "$scratch/log" &&
		grep -q "rank 0 called all_reduce(count 8, float32, sum); rank 1, 2 called MPI_Allreduc... (16000 bytes there), which MPI runs" "$scratch/log"
	result $? "ranks in MPI beside one in Corale, nodes of $nodes (0: all): an error within two seconds, a line with both calls"
done

case $("$MPIRUN" --version 2>&1) in
*"Open MPI"* | *OpenRTE*)
	recovery=--enable-recovery
	run 4 "$program" die
	[ "$(grep -cE '^rank [123]: MPI_ERR_OTHER after 0\.' "$scratch/log")" = 3 ]
	result $? "a rank dies: MPI_ERR_OTHER on all others within a second"
	recovery=
	;;
*)
	skip "a rank dies" "MPICH's launcher ends the other ranks"
	;;
esac

# A program that MPI's compiler for Fortran builds, if there is one beside the launcher.
fortran() # name, options
{
	local launcher mpifort
	if [ -n "$TEST_DEVICE" ]; then
		number=$((number + 1))
		echo "ok $number - Fortran, $1 # SKIP its program uses no GPU, so nothing is routed"
		return
	fi
	launcher=$(command -v "$MPIRUN")
	mpifort=${launcher%/*}/$(basename "$launcher" | sed 's/mpirun\|mpiexec/mpifort/')
	cat >"$scratch/program.F90" <<'F90'
program sums
#ifdef F08
  use mpi_f08
#elif defined(MPIFH)
#else
  use mpi
#endif
  implicit none
#ifdef MPIFH
  include 'mpif.h'
#endif
  integer :: rank, n, ierr
  double precision :: a(100), b(100)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
  a = rank + 1
  call MPI_Allreduce(a, b, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, b, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Bcast(b, 100, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
  if (any(b /= 6)) stop 1
  call MPI_Finalize(ierr)
end program
F90
	if ! command -v "$mpifort" >/dev/null || ! "$mpifort" $2 -o "$scratch/sums" "$scratch/program.F90" >"$scratch/log" 2>&1; then
		number=$((number + 1))
		echo "ok $number - Fortran, $1 # SKIP no compiler of MPI programs in Fortran"
		return
	fi
	run 2 CORALE_MPI=all CORALE_MPI_AFTER=0 CORALE_DEBUG=info "$scratch/sums" && grep -qE 'MPI_Allreduce +< 4 KB +2 \(' "$scratch/log" && grep -qE 'MPI_Bcast +< 4 KB +1 \(' "$scratch/log"
	result $? "Fortran, $1: calls go through the door"
}
fortran "use mpi"
fortran "use mpi_f08" -DF08
fortran "mpif.h" "-DMPIFH -fallow-argument-mismatch"

# The other MPI of Debian, where it is there.
other=mpicc.mpich
ldd "$door" | grep -q 'libmpi\.so\.40' || other=mpicc.openmpi
if command -v $other >/dev/null; then
	printf '#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n' >"$scratch/other.c"
	$other -o "$scratch/other" "$scratch/other.c"
	LD_PRELOAD=$door timeout 20 "$scratch/other" >"$scratch/log" 2>&1
	[ $? = 1 ] && grep -q "has another MPI" "$scratch/log"
	result $? "a program of another MPI: an error line, no crash"
else
	number=$((number + 1))
	echo "ok $number - a program of another MPI # SKIP no $other"
fi
echo "1..$number"
