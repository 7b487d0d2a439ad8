#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# examples/mpi: Jacobi's iteration in C, and in Fortran where there is MPI's compiler for it, has one residual, without the MPI door and with it. TAP.
. "$top_srcdir/test/run/launcher-env.sh"
door=$top_builddir/.libs/libcorale_pmpi.so
launcher=$(command -v "$MPIRUN")
[ -f "$door" ] || { echo "1..0 # SKIP no MPI door in this build"; exit; }
. "$top_srcdir/test/run/tap.sh"
reasons=$scratch/log

compiler() { echo "${launcher%/*}/$(basename "$MPIRUN" | sed "s/mpirun\|mpiexec/$1/")"; } # of the launcher's MPI

# residual RANKS PROGRAM [VARIABLE=VALUE]...: sets $got
residual()
{
	local ranks=$1 program=$2
	shift 2
	got=$(timeout -k 5 "$(busy_seconds 60)" "$MPIRUN" -n "$ranks" env OMP_NUM_THREADS=1 "$@" "$scratch/$program" 300 2>"$scratch/log" </dev/null | sed -n 's/.*residual *//p')
}

check() # description; "" without the door is not a residual
{
	echo "residual '$got', wanted '$want'" >>"$scratch/log"
	[ -n "$want" ] && [ "$got" = "$want" ]
	result $? "$1"
}

# compile NAME COMPILER SOURCE OPTION...
compile()
{
	local name=$1 by=$2 source=$3
	shift 3
	(cd "$scratch" && "$(compiler "$by")" -O2 -fopenmp "$@" -o "$name" "$source" -lm) >"$scratch/log" 2>&1
}

# program NAME COMPILER SOURCE: without the door on one rank, then with it on three. GCC's offloading to GPUs, where it is installed, is not wanted:
# it fails with another CUDA than its own.
program()
{
	if ! compile "$@" -foffload=disable && ! compile "$@"; then
		result 1 "$1 compiles"
		return
	fi
	residual 1 "$1"
	want=${want:-$got}
	check "$1, 1 rank without the door"
	residual 3 "$1" LD_PRELOAD="$door"
	check "$1, 3 ranks, the default"
	residual 3 "$1" LD_PRELOAD="$door" CORALE_MPI=all
	check "$1, 3 ranks, CORALE_MPI=all"
}

want=
program jacobi mpicc "$(cd "$top_srcdir" && pwd)/examples/mpi/jacobi.c"
echo end >"$scratch/nothing.f90"
if "$(compiler mpifort)" -o "$scratch/nothing" "$scratch/nothing.f90" >"$scratch/log" 2>&1; then
	program jacobi_fortran mpifort "$(cd "$top_srcdir" && pwd)/examples/mpi/jacobi.f90"
else
	skip jacobi_fortran "no compiler of MPI programs in Fortran"
fi
echo "1..$number"
