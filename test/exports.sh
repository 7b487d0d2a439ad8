#!/bin/sh
# What the shared libraries export is what the headers declare, and libcorale does not need MPI. TAP.
number=0
result() # status, description
{
	number=$((number + 1))
	if [ "$1" = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi
}
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

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
check libcorale corale.h
if [ -e "$top_builddir/.libs/libcorale.so" ]; then
	! readelf -d "$top_builddir/.libs/libcorale.so" | grep -E 'NEEDED.*(libmpi|libpmpi)' >/dev/null
	result $? "libcorale does not link MPI"
	! nm "$top_builddir/.libs/libcorale.so" | grep -E ' (check_plan|sim_run|plan_queue[a-z_]*)$' >/dev/null
	result $? "libcorale has neither checker nor simulator"
fi
[ -e "$top_builddir/.libs/libcorale_mpi.so" ] && check libcorale_mpi corale_mpi.h
echo "1..$number"
