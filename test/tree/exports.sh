#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the shared libraries export is what the headers declare, libcorale does not need MPI, and no code of proxies calls CUDA. TAP.
. "$top_srcdir/test/run/tap.sh"
declared() { sed 's,/\*.*\*/,,' "$1" | grep -oE '\bcorale_[a-z0-9_]+\(' | tr -d '(' | sort -u; }
exported() { nm -D --defined-only "$1" | awk '$2 ~ /[TDBRV]/ { sub(/@.*/, "", $3); print $3 }' | grep -v '^CORALE_' | sort -u; }

check() # library, header
{
	library=$top_builddir/.libs/$1.so
	if [ ! -e "$library" ]; then
		number=$((number + 1))
		echo "ok $number - exports of $1 # SKIP no shared library in this build"
		return
	fi
	declared "$top_srcdir/include/$2" >"$scratch/declared"
	exported "$library" | grep -v '^corale_private_' >"$scratch/exported"
	diff "$scratch/declared" "$scratch/exported" >"$scratch/diff"
	result $? "$1 exports what $2 declares"
	sed 's/^/# /' "$scratch/diff"
}

check libcorale corale.h
if [ -e "$top_builddir/.libs/libcorale.so" ]; then
	! readelf -d "$top_builddir/.libs/libcorale.so" | grep -E 'NEEDED.*(libmpi|libpmpi)' >/dev/null
	result $? "libcorale does not link MPI"
	! nm "$top_builddir/.libs/libcorale.so" | grep -E ' (check_plan|sim_run|queues_open|queue_key)$' >/dev/null
	result $? "libcorale has neither checker nor simulator"
fi
[ -e "$top_builddir/.libs/libcorale_mpi.so" ] && check libcorale_mpi corale_mpi.h

door=$top_builddir/.libs/libcorale_pmpi.so
if [ -e "$door" ]; then
	exported "$door" | grep -vE '^P?MPIX?_[A-Za-z0-9_]+$' >"$scratch/foreign"
	[ ! -s "$scratch/foreign" ]
	result $? "libcorale_pmpi exports names of MPI alone"
	sed 's/^/# /' "$scratch/foreign"
	exported "$door" | sed -n 's/^MPI_/PMPI_/p' >"$scratch/names"
	exported "$door" | grep '^PMPI_' | diff "$scratch/names" - >"$scratch/diff"
	result $? "each of them as MPI_X and as PMPI_X"
	sed 's/^/# /' "$scratch/diff"
	nm -D --undefined-only "$door" | awk '$2 ~ /^MPI_/ && $2 !~ /^MPI_F_/ { print "# " $2 }' >"$scratch/calls"
	[ ! -s "$scratch/calls" ]
	result $? "libcorale_pmpi calls PMPI_ functions of MPI alone"
	cat "$scratch/calls"
fi

# A kernel may wait for a message while the program holds CUDA's lock, so who carries it may make no call of CUDA: neither by linking nor by name.
calls_of_cuda() # object
{
	{ nm -u "$1" | awk '{ print $NF }'; LC_ALL=C tr -c '[:print:]' '\n' <"$1"; } | grep -xE '(cu|cuda)[A-Z][A-Za-z0-9_]*' | sort -u
}
objects=$(find "$top_builddir/lib/net" "$top_builddir/lib/base" "$top_builddir/mpi_glue" -name '*.o' 2>/dev/null)
for object in $objects; do
	calls_of_cuda "$object" | sed "s,^,# $object: ,"
done >"$scratch/calls"
[ -n "$objects" ] && [ ! -s "$scratch/calls" ]
result $? "no object of lib/net, lib/base and mpi_glue calls CUDA"
cat "$scratch/calls"
echo "1..$number"
