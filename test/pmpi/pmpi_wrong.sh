#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Wrong calls (test/pmpi/pmpi_wrong.c) with the MPI door and without: MPI's error, and its communicator goes on. TAP.
. "$top_srcdir/test/run/launcher-env.sh"
door=$top_builddir/.libs/libcorale_pmpi.so
device=$top_builddir/.libs/libfake_device.so
program=$top_builddir/test/pmpi/pmpi_wrong
[ -f "$door" ] && [ -x "$program" ] || { echo "1..0 # SKIP no MPI door in this build"; exit; }
. "$top_srcdir/test/run/tap.sh"
ranks=3

# compare DESCRIPTION FILE MEMORY [VARIABLE=VALUE]...
compare()
{
	local description=$1 file=$2 memory=$3 i status
	shift 3
	env CORALE_MPI_AFTER=0 "$@" timeout -k 5 "$(busy_seconds 60)" "$MPIRUN" -n $ranks "$program" "$scratch/$file" "$memory" >"$scratch/log" 2>&1 </dev/null
	status=$?
	for ((i = 0; i < ranks && status == 0; i++)); do
		[ "$(wc -l <"$scratch/$file.$i")" -ge 300 ] && diff "$scratch/without.$i" "$scratch/$file.$i" >>"$scratch/log" || status=1
	done
	result $status "$description"
	[ $status = 0 ] && return
	tail -n 1 "$scratch/$file.0" | sed 's/^/# last: /'
	grep -v '^$' "$scratch/log" | tail -n 20 | sed 's/^/# /'
}

compare "$ranks ranks without the door" without host
compare "CORALE_MPI=host" host host LD_PRELOAD="$door" CORALE_MPI=host
compare "CORALE_MPI=host, nodes of 2" nodes host LD_PRELOAD="$door" CORALE_MPI=host CORALE_NODE_SIZE=2
compare "device buffers" device device LD_PRELOAD="$door:$device" CORALE_MPI=device
echo "1..$number"
