#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rates as a file: corale-info shows them, a loaded rate changes what corale-plan chooses, a broken file is refused with its line, and so are ranks
# with different files. TAP.
. "$top_srcdir/test/run/tap.sh"
. "$top_srcdir/test/run/launcher-env.sh"
info=$top_builddir/examples/corale-info
plan=$top_builddir/examples/corale-plan
for name in $(env | sed -n 's/^\(CORALE_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done

# rates FILE LINE...: a file with these lines behind the first one
rates()
{
	file=$scratch/$1
	shift
	printf '%s\n' "# corale-tuning 1" "$@" >"$file"
}

has() # REGULAR-EXPRESSION DESCRIPTION: of the last output
{
	grep -Eq "$1" "$scratch/output"
	tell "$2"
}

rates a "host.node_ns 10000" "network.rail_ns 800"
rates b "host.node_ns 10001"
rates broken "# by hand" "host.node_gbs fast"

CORALE_TUNING=$scratch/a "$info" >"$scratch/output" 2>&1
tell "corale-info reads the file"
has "^  file +$scratch/a\$" "and shows its path"
has '^  hash +[0-9a-f]{16}$' "its hash"
has '^  host.node_ns +10000 \(built in: 150\)$' "a rate that differs from the built-in one"
! grep -q 'network.rail_ns' "$scratch/output"
tell "none that is the same"
has '^  from +by CORALE_TUNING$' "and that messages between nodes have rates of the file"

CORALE_TUNING=$scratch/broken "$info" >"$scratch/output" 2>&1
[ $? = 1 ]
tell "a broken file is status 1"
has "CORALE_TUNING=$scratch/broken, line 3: found \"host.node_gbs fast\", expected host.node_gbs and a number" "with its line"

"$plan" -n rank:8 all_reduce 4K >"$scratch/output"
has '^choices: *oneshot.* to 1K; then twoshot' "the choice by built-in rates"
"$plan" -n --tuning "$scratch/a" rank:8 all_reduce 4K >"$scratch/output"
has '^choices: *oneshot.* to 8K; then twoshot' "and by the file's"
"$plan" --tuning "$scratch/broken" rank:8 >"$scratch/output" 2>&1
[ $? = 2 ]
tell "corale-plan refuses a broken file"

# ranks FILE FILE: a rank with each. By one command: the mpirun of Open MPI 5.0.7 dies of "-n 1 env A=1 program : -n 1 env A=2 program".
ranks()
{
	CORALE_DEBUG=info CORALE_TUNING=$1 SECOND=$2 timeout -k 5 120 "$MPIRUN" -n 2 sh -c '
		[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || CORALE_TUNING=$SECOND
		exec "$0"' "$top_builddir/examples/allreduce" >"$scratch/output" 2>&1 </dev/null
}

if [ -n "$MPIRUN" ]; then
	cp "$scratch/a" "$scratch/same"
	ranks "$scratch/a" "$scratch/same"
	tell "ranks with equal rates run"
	has "INFO .*rates of CORALE_TUNING=$scratch/same, hash " "and say by which"
	! ranks "$scratch/a" "$scratch/b"
	tell "ranks with different rates do not"
	has 'CORALE_TUNING differs: rates with hash [0-9a-f]{16} on rank 0 .*, [0-9a-f]{16} on rank 1 ' "and the error names both"
	! ranks "" "$scratch/b"
	tell "nor a rank without"
	has 'CORALE_TUNING differs: rates with hash 0000000000000000 on rank 0 ' "and the error names it"
	! ranks "$scratch/broken" "$scratch/a"
	tell "nor a rank with a broken file"
	has 'ERROR .*line 3: found "host.node_gbs fast"' "whose line is said"
fi

# tune SHAPE ARGUMENT...: corale-tune on ranks:ranks of a node
tune()
{
	shape=$1
	shift
	CORALE_NODE_SIZE=${shape#*:} timeout -k 5 120 "$MPIRUN" -n "${shape%:*}" "$top_builddir/examples/corale-tune" "$@" \
		>"$scratch/output" 2>&1 </dev/null
}

if [ -n "$MPIRUN" ] && [ "$(nproc)" -ge 2 ]; then
	tune 2:0 --dry-run -o "$scratch/none"
	tell "corale-tune --dry-run"
	has '^corale-tune: host.node_ns: .*, 5.0 s$' "says what it would measure, and for how long"
	[ ! -e "$scratch/none" ]
	tell "and writes nothing"
	tune 2:0 -s 0.3 -o "$scratch/tuned"
	tell "corale-tune of 2 ranks"
	has '^corale-tune: 3 of 3, ' "shows its progress"
	hash=$(sed -n 's/^corale-tune: hash \([0-9a-f]*\);.*/\1/p' "$scratch/output")
	cp "$scratch/tuned" "$scratch/output"
	[ "$(grep -cE '^host\.(node_ns|node_gbs|reduce_gbs|step_ns) [0-9]' "$scratch/output")" = 4 ]
	tell "and writes the rates of hosts"
	CORALE_TUNING=$scratch/tuned "$info" >"$scratch/output" 2>&1
	tell "corale-info reads them"
	has "^  hash +$hash\$" "with the hash that corale-tune said"
	ranks "$scratch/tuned" "$scratch/tuned"
	tell "and ranks run by them"
	tune 2:1 -s 0.3 -o "$scratch/tuned"
	tell "corale-tune of 2 nodes"
	cp "$scratch/tuned" "$scratch/output"
	[ "$(grep -cE '^network\.(rail_ns|rail_gbs|send_ns|recv_ns|net_gbs) [0-9]' "$scratch/output")" = 5 ]
	tell "writes the rates between nodes"
	! tune 2:0 -s 0
	tell "no time is refused"
	! tune 1:0
	has 'nothing can be measured: there is one rank' "and so is one rank"
	! tune 2:0 -s 0.1 -o "$scratch/no/such"
	has "$scratch/no/such can't be written: No such file" "a file that can't be written is said"
fi
echo "1..$number"
