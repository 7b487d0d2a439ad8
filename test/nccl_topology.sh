#!/bin/bash
# Which ranks of a host are a node, behind NCCL's interface in host memory: NCCL_SHM_DISABLE and NCCL_HOSTID; ranks that can't pass each other descriptors.
# TAP.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"
set -u
build=$(cd "${top_builddir:-$PWD}" && pwd)
program=$build/test/nccl_rank
number=0
modules=$build/.libs

if [ ! -f "$modules/corale_ucx.so" ]; then
	echo "1..0 # SKIP this build has no corale_ucx.so"
	exit 0
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export CORALE_MODULES=$modules CORALE_NCCL_DEVICE=host CORALE_DEBUG=info UCX_VFS_ENABLE=n

within=() # what runs the ranks
# ranks [NAME=VALUE]... [/ NAME=VALUE... [/ [no-]CALL [as USER]]]: three ranks, the second part of rank 2 alone, whose CALL is not permitted. What they print is in
# $scratch/all.
ranks()
{
	local rank all=() last=() call= user=() pids=()
	while [ $# -gt 0 ] && [ "$1" != / ]; do all+=("$1") && shift; done
	shift
	while [ $# -gt 0 ] && [ "$1" != / ]; do last+=("$1") && shift; done
	shift
	call=${1:-}
	[ -z "${3:-}" ] || user=(setpriv --reuid "$3" --clear-groups)
	rm -f "$scratch"/id* "$scratch"/out.*
	for rank in 0 1; do
		"${within[@]}" env "${all[@]}" timeout -k 2 50 "$program" $rank 3 "$scratch/id" >"$scratch/out.$rank" 2>&1 </dev/null &
		pids+=($!)
	done
	"${within[@]}" env "${all[@]}" "${last[@]}" timeout -k 2 50 "${user[@]}" "$program" 2 3 "$scratch/id" $call >"$scratch/out.2" 2>&1 </dev/null &
	pids+=($!)
	wait "${pids[@]}"
	cat "$scratch"/out.* >"$scratch/all"
}
# nodes NUMBER DESCRIPTION [PATTERN]...: all ranks have their sum, as so many nodes, and each pattern (grep -E) is in one line of all ranks'.
nodes()
{
	local wanted=$1 description=$2 wrong=0 pattern
	shift 2
	[ "$(grep -c '^rank . code 0 ' "$scratch/all")" = 3 ] || wrong=1
	[ "$(grep -c "communicator of 3 ranks on $wanted nodes" "$scratch/all")" = 3 ] || wrong=1
	for pattern in "$@"; do [ "$(grep -cE "$pattern" "$scratch/all")" = 1 ] || wrong=1; done
	! grep -q 'does not listen' "$scratch/all" || wrong=1
	number=$((number + 1))
	if [ $wrong = 0 ]; then echo "ok $number - $description"; else echo "not ok $number - $description"; fi
	[ $wrong = 0 ] || grep -E 'WARN|ERROR|code|communicator of' "$scratch/all" | head -n 20 | sed 's/^/# /'
}

ranks
nodes 1 "three ranks of a host"
ranks NCCL_SHM_DISABLE=1
nodes 3 "NCCL_SHM_DISABLE=1"
ranks / NCCL_SHM_DISABLE=1
nodes 2 "NCCL_SHM_DISABLE=1 on one rank"
ranks NCCL_P2P_DISABLE=1
nodes 1 "NCCL_P2P_DISABLE=1 changes nothing in host memory"
ranks NCCL_HOSTID=a
nodes 1 "one NCCL_HOSTID"
ranks NCCL_HOSTID=a / NCCL_HOSTID=b
nodes 2 "another NCCL_HOSTID on one rank"
ranks / / no-sendmsg
nodes 3 "a rank must not send descriptors" \
	"WARN.*rank 2 can't pass descriptors of memory to other ranks of its host [^ ]+ \\(it cannot send descriptors: Operation not permitted\\)"
# shared NUMBER DESCRIPTION: so many ranks have written that messages between nodes of their host go through shared memory.
shared()
{
	local wrong=0
	[ "$(grep -c 'transport ucx: over posix/memory' "$scratch/all")" = "$1" ] || wrong=1
	number=$((number + 1))
	if [ $wrong = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi
	[ $wrong = 0 ] || grep -E 'WARN|over ' "$scratch/all" | head -n 20 | sed 's/^/# /'
}
shared 3 "and their messages go through shared memory"
ranks NCCL_HOSTID=a / NCCL_HOSTID=b
shared 0 "not with another NCCL_HOSTID"
ranks NCCL_SHM_DISABLE=1
shared 0 "nor with NCCL_SHM_DISABLE=1"
little='mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" "$@"'
if unshare -m sh -c "$little" true 2>/dev/null; then
	within=(unshare -m sh -c "$little")
	ranks / / no-sendmsg
	within=()
	nodes 3 "where /dev/shm is too small" "WARN.*rank 0.*UCX could not make shared memory.*go over the network"
	shared 0 "which then go over the network"
fi
chmod 711 "$scratch"
if setpriv --reuid 65534 --clear-groups "$program" 2>&1 | grep -q usage; then
	ranks / / "" as 65534
	nodes 3 "ranks of two users" "WARN.*rank [012] can't pass descriptors .*belongs to another user"
fi
echo "1..$number"
