#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Point to point of device buffers, and what refuses them, by programs of Fortran (test/pmpi/pmpi_fortran.F90), where there is MPI's compiler for them. TAP.
. "$top_srcdir/test/run/launcher-env.sh"
door=$top_builddir/.libs/libcorale_pmpi.so
device=$top_builddir/.libs/libfake_device.so
launcher=$(command -v "$MPIRUN")
mpifort=${launcher%/*}/$(basename "$MPIRUN" | sed 's/mpirun\|mpiexec/mpifort/')
[ -f "$door" ] && [ -f "$device" ] || { echo "1..0 # SKIP no MPI door in this build"; exit; }
. "$top_srcdir/test/run/tap.sh"
echo end >"$scratch/nothing.f90" # Debian's mpifort is there without the compiler that it calls
"$mpifort" -o "$scratch/nothing" "$scratch/nothing.f90" >/dev/null 2>&1 || { echo "1..0 # SKIP no compiler of MPI programs in Fortran"; exit; }

# run NAME OPTION...: every case of the program, as one.
run()
{
	local name=$1
	shift
	"$mpifort" -g -fallow-argument-mismatch -ffree-line-length-none "$@" -J "$scratch" -o "$scratch/program" "$top_srcdir/test/pmpi/pmpi_fortran.F90" "$device" >"$scratch/log" 2>&1 &&
		timeout -k 5 "$(busy_seconds 60)" "$MPIRUN" -n 2 env TEST_FOLDER="$scratch" LD_PRELOAD="$door:$device" "$scratch/program" >"$scratch/log" 2>&1 </dev/null && grep -q '^1\.\.10$' "$scratch/log"
	local status=$?
	result $status "$name"
	[ $status = 0 ] || { grep '^not ok' "$scratch/log"; tail -n 30 "$scratch/log"; } | cut -c-300 | sed 's/^/# /'
}

run "use mpi"
run "use mpi_f08" -DF08
run "mpif.h" -DMPIF
echo "1..$number"
