#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Which ranks of a host are a node, behind NCCL's interface in host memory: NCCL_SHM_DISABLE and NCCL_HOSTID; ranks that can't pass each other descriptors.
# TAP.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"
. "${top_srcdir:-$(dirname "$0")/../..}/test/nccl/nccl_ranks.sh"

within=() # what runs the ranks
# ranks [NAME=VALUE]... [/ NAME=VALUE... [/ [no-]CALL [as USER]]]: three ranks, the second part of rank 2 alone, whose CALL is not permitted.
ranks()
{
	local rank all=() last=() user=()
	while [ $# -gt 0 ] && [ "$1" != / ]; do all+=("$1") && shift; done
	shift
	while [ $# -gt 0 ] && [ "$1" != / ]; do last+=("$1") && shift; done
	shift
	[ -z "${3:-}" ] || user=(setpriv --reuid "$3" --clear-groups)
	fresh
	for rank in 0 1; do run $rank 3 "${within[@]}" env "${all[@]}"; done
	run 2 3 "${within[@]}" env "${all[@]}" "${last[@]}" "${user[@]}" -- ${1:-}
	await
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
	grep -E 'WARN|ERROR|code|communicator of' "$scratch/all" >"$scratch/reasons"
	result $wrong "$description" "$scratch/reasons"
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
	[ "$(grep -c 'Channel 00/0 : .* via SHM/UCX' "$scratch/all")" = "$((2 * $1))" ] || wrong=1
	grep -E 'WARN|over ' "$scratch/all" >"$scratch/reasons"
	result $wrong "$2" "$scratch/reasons"
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
