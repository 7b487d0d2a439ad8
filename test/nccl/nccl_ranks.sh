# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests of test/nccl/nccl_rank over nodes: the program, the modules, $scratch, which goes at the end, and TAP lines. A build without UCX skips them all.
set -u
build=$(cd "${top_builddir:-$PWD}" && pwd)
program=$build/test/nccl/nccl_rank
modules=$build/.libs
number=0

if [ ! -f "$modules/corale_ucx.so" ]; then
	echo "1..0 # SKIP this build has no corale_ucx.so"
	exit 0
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export CORALE_MODULES=$modules CORALE_NCCL_DEVICE=host CORALE_DEBUG=info UCX_VFS_ENABLE=n

result() # status, description, file with the reasons
{
	number=$((number + 1))
	[ "$1" = 0 ] || [ -z "$late" ] || echo "# a limit of time alone" # test/run/run-tests
	if [ "$1" = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi
	[ "$1" = 0 ] || head -n 20 "$3" | sed 's/^/# /'
}
# run RANK SIZE [COMMAND]... [-- CALL]: a rank in the background, run by a command (env, setpriv), as test/nccl/nccl_rank's CALL says. It prints into $scratch/out.RANK.
run()
{
	local rank=$1 size=$2 command=()
	shift 2
	while [ $# -gt 0 ] && [ "$1" != -- ]; do command+=("$1") && shift; done
	timeout -k 2 50 "${command[@]}" "$program" "$rank" "$size" "$scratch/id" "${@:2}" >"$scratch/out.$rank" 2>&1 </dev/null &
	started+=($!)
}
late= # whether a rank ran past its limit
fresh() # a new id, for new ranks
{
	late=
	rm -f "$scratch"/id* "$scratch"/out.*
	started=()
}
await() # what all ranks print is in $scratch/all
{
	local rank
	for rank in "${started[@]}"; do
		wait "$rank"
		[ $? != 124 ] || late=yes
	done
	cat "$scratch"/out.* >"$scratch/all"
}
