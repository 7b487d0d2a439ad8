#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the shared libraries offer to compiled programs is what test/abi/ has recorded: functions and types of libcorale and libcorale_mpi by abidiff, the
# functions of libcorale_pmpi by name. (Of libnccl: test/nccl/nccl_abi.sh.) TAP. `test/tree/abi.sh update` in the environment of a test records anew.
# A difference may want another SONAME_INFO: its rules are in Makefile.am.
records=$top_srcdir/test/abi
. "$top_srcdir/test/run/tap.sh"
reasons=$scratch/diff
# Of MPI 3's functions alone: Open MPI 5 and MPICH have those of MPI 4, too, each others of them.
door_names() { nm -D --defined-only "$1" | awk '$3 ~ /^MPI_/ { print $3 }' | LC_ALL=C sort; }
dump() # library: a declaration a line
{
	abidw --headers-dir "$top_srcdir/include" --drop-private-types --exported-interfaces-only --no-corpus-path --no-comp-dir-path --short-locs --no-elf-needed \
		--no-parameter-names "$top_builddir/.libs/$1.so" | sed "s, line='[0-9]*' column='[0-9]*', line='1' column='1'," |
		awk '/^      |^    <\// { sub(/^ */, ""); printf "%s", $0; next } { printf "%s%s", (NR > 1 ? "\n" : ""), $0 } END { print "" }'
}

[ -e "$top_builddir/.libs/libcorale.so" ] || { echo "1..0 # SKIP no shared library in this build"; exit; }
if [ "${1:-}" = update ] && command -v abidw >/dev/null; then
	for name in libcorale libcorale_mpi; do dump $name >"$records/$name.abi" || exit 1; done
	door_names "$top_builddir/.libs/libcorale_pmpi.so" >"$records/libcorale_pmpi.functions"
	exit
fi
for name in libcorale libcorale_mpi; do # libcorale_mpi of Open MPI: an MPI_Comm of MPICH is another type
	library=$top_builddir/.libs/$name.so
	if ! command -v abidiff >/dev/null || [ ! -e "$library" ] || ! readelf -S "$library" | grep -q '\.debug_info' || readelf -d "$library" | grep -q libmpich; then
		skip "$name: the recorded ABI" "no abidiff (package abigail-tools), no $name.so, no debug information in it, or another MPI"
		continue
	fi
	abidiff --headers-dir1 "$top_srcdir/include" --headers-dir2 "$top_srcdir/include" "$records/$name.abi" "$library" >"$scratch/diff" 2>&1
	result $? "$name: the recorded ABI"
done
door=$top_builddir/.libs/libcorale_pmpi.so
if [ -e "$door" ]; then
	door_names "$door" | LC_ALL=C comm -23 "$records/libcorale_pmpi.functions" - >"$scratch/diff"
	[ ! -s "$scratch/diff" ]
	result $? "libcorale_pmpi: the recorded functions"
fi
echo "1..$number"
