#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a program of NCCL's prints with NCCL_DEBUG: the lines that people look for, where NCCL has them, and nothing else. Two ranks, TAP.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"
set -u
build=${top_builddir:-$PWD}
program=$build/test/nccl/nccl_rank
number=0
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
unset NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE CORALE_DEBUG CORALE_LOG_FILE CORALE_NCCL_VERSION
export CORALE_NCCL_DEVICE=host NCCL_SOCKET_IFNAME=lo
[ -x "$program" ] || {
	echo "1..0 # SKIP test/nccl/nccl_rank is not built"
	exit 0
}

first= # variables of rank 0 alone
# ranks [NAME=VALUE...]: two ranks. What rank R printed is in $scratch/out.R and $scratch/err.R, less the program's own line.
ranks()
{
	rm -f "$scratch"/*
	env "$@" $first timeout -k 2 60 "$program" 0 2 "$scratch/id" >"$scratch/all.0" 2>"$scratch/err.0" &
	env "$@" timeout -k 2 60 "$program" 1 2 "$scratch/id" >"$scratch/all.1" 2>"$scratch/err.1"
	wait $!
	for r in 0 1; do
		grep -qE "^rank $r code 0 " "$scratch/all.$r" || echo "rank $r failed" >>"$scratch/err.$r"
		grep -vE "^rank $r code 0 " "$scratch/all.$r" >"$scratch/out.$r"
	done
}
result() # status, description
{
	number=$((number + 1))
	[ "$1" = 0 ] && echo "ok $number - $2" || {
		echo "not ok $number - $2"
		head -n 30 "$scratch"/out.* "$scratch"/err.* | sed 's/^/# /'
	}
}
# has FILE PATTERN...: each pattern is a line of it (grep -E).
has()
{
	local file=$1
	shift
	for pattern in "$@"; do
		grep -qE "$pattern" "$scratch/$file" && continue
		echo "no line of $file matches: $pattern" >>"$scratch/err.0"
		return 1
	done
}
empty() { # FILE...
	for file in "$@"; do [ ! -s "$scratch/$file" ] || return 1; done
}

start='^[^ :]+:[0-9]+:[0-9]+ \[0\] NCCL INFO '
version='NCCL version 2\.28\.9 \(Corale [0-9.]+\)$'

ranks
empty out.0 out.1 err.0 err.1
result $? "without NCCL_DEBUG: nothing"

ranks NCCL_DEBUG=VERSION
has out.0 "^$version" && [ "$(wc -l <"$scratch/out.0")" = 1 ] && empty out.1 err.0 err.1
result $? "VERSION: one line of rank 0"

ranks NCCL_DEBUG=VERSION CORALE_NCCL_VERSION=22703
has out.0 '^NCCL version 2\.27\.3 '
result $? "VERSION: what ncclGetVersion says"

ranks NCCL_DEBUG=WARN
has out.0 "^$version" && [ "$(wc -l <"$scratch/out.0")" = 1 ] && empty out.1 err.0 err.1
result $? "WARN: one line of rank 0"

ranks NCCL_DEBUG=INFO
has out.0 "$start$version" "${start}Using network none" \
	"${start}ncclCommInitRank comm 0x[0-9a-f]+ rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 0 commId 0x[0-9a-f]+ - Init START" \
	"${start}Channel 00/0 : 0\\[0\\] -> 1\\[0\\] via SHM/direct/direct" \
	"${start}ncclCommInitRank comm 0x[0-9a-f]+ rank 0 nranks 2 .* - Init COMPLETE" \
	"${start}Corale: rank 0: without effect in ncclConfig_t: splitShare$" &&
	has out.1 "${start}Channel 00/0 : 1\\[0\\] -> 0\\[0\\] via SHM/direct/direct" "rank 1 nranks 2 .* - Init COMPLETE" &&
	! grep -q 'NCCL version' "$scratch/out.1" && ! grep -vqE "$start" "$scratch/out.0" && empty err.0 err.1
result $? "INFO: version, network, init, paths, fields without effect"

if [ -f "$top_builddir/.libs/corale_ucx.so" ]; then
	ranks NCCL_DEBUG=INFO CORALE_NODE_SIZE=1
	has out.0 "${start}Using network Socket" "${start}Channel 00/0 : 0\\[0\\] -> 1\\[0\\] via NET/Socket/0"
	result $? "INFO over nodes: network, paths"
fi

ranks NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL
has out.0 "${start}AllReduce: opCount 0 sendbuff 0x[0-9a-f]+ recvbuff 0x[0-9a-f]+ count 1 datatype 2 op 0 root 0 comm 0x[0-9a-f]+ \\[nranks=2\\] stream .+" && empty err.0 err.1
result $? "INFO of COLL: calls"

ranks NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=P2P
has out.0 "via SHM" && [ "$(grep -cv 'NCCL version\|via SHM' "$scratch/out.0")" = 0 ] && empty err.0 err.1
result $? "INFO of P2P: paths"

ranks NCCL_DEBUG=INFO NCCL_DEBUG_FILE="$scratch/file.%p"
empty out.0 out.1 err.0 err.1 && cat "$scratch"/file.* >"$scratch/out.0" && has out.0 "$version" "rank 0 .*Init COMPLETE" "rank 1 .*Init COMPLETE"
result $? "INFO in a file"

pins="NCCL_MIN_NCHANNELS=1 NCCL_MAX_NCHANNELS=1 NCCL_PROTO=Simple"
ranks NCCL_DEBUG=INFO $pins NCCL_ALGO=allreduce:tree
has out.0 "${start}Corale: one channel, .*pinned: sums are made in rank order" "${start}NCCL_ALGO set by environment to allreduce:tree" && empty err.0 err.1
result $? "pins of sums: said"

ranks NCCL_DEBUG=INFO NCCL_MIN_NCHANNELS=1 NCCL_MAX_NCHANNELS=1
! grep -qE 'pinned|REPRODUCIBLE' "$scratch/out.0"
result $? "one channel alone pins nothing"

first=NCCL_ALGO=Ring
ranks NCCL_DEBUG=INFO $pins
first=
has err.0 "rank 0 pins one channel.* rank 1 does not" && ! grep -qE 'are pinned|REPRODUCIBLE' "$scratch/out.0"
result $? "pins of one rank: a warning, and no effect"
echo "1..$number"
