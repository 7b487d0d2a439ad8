#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Golden plans: each file of test/plans starts with the line that makes it; a changed schedule is a visible difference. Of long plans, and of those that
# resemble a file's, test/plans/sums.table has the line that makes them behind the checksum of what it prints.
# And corale-plan's other manners. TAP. "test/plan/plans.sh update" (in a build tree) writes the files and the table anew.
plan=${top_builddir:-.}/examples/corale-plan
top_srcdir=${top_srcdir:-$(dirname "$0")/../..}
plans=$top_srcdir/test/plans
. "$top_srcdir/test/run/tap.sh"
for name in $(env | sed -n 's/^\(CORALE_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
# One chunk size and channel, so that what is measured one day on other machines changes no golden plan.
CORALE_CHUNK_BYTES=65536 CORALE_MAX_CHANNELS=1 CORALE_SLOTS=4 CORALE_SLOT_BYTES=65536
export CORALE_CHUNK_BYTES CORALE_MAX_CHANNELS CORALE_SLOTS CORALE_SLOT_BYTES

# make_plan LINE: what the line prints, without times
make_plan()
{
	(eval "$1") 2>&1 | grep -Ev '^(why|rates|modelled|simulated|choices|no room):|^  [0-9]+ ranks on|^$'
}

corale_plan()
{
	CORALE_ALGO=$1 && export CORALE_ALGO && shift
	"$plan" -n "$@"
}

for file in "$plans"/*.plan; do
	line=$(head -n 1 "$file")
	echo "$line" >"$scratch/new"
	make_plan "${line#\# }" >>"$scratch/new"
	if [ "$1" = update ]; then
		cp "$scratch/new" "$file"
		continue
	fi
	diff -u "$file" "$scratch/new" >"$scratch/diff"
	result $? "$(basename "$file" .plan)"
	sed 's/^/# /' "$scratch/diff"
done
while read -r sum line; do
	make_plan "$line" >"$scratch/new"
	is=$(cksum <"$scratch/new" | tr ' ' -)
	echo "$is $line" >>"$scratch/sums"
	[ "$1" != update ] || continue
	[ "$is" = "$sum" ]
	result $? "$line: $is"
	[ "$is" = "$sum" ] || sed 's/^/# is now: /' "$scratch/new"
done <"$plans/sums.table"
if [ "$1" = update ]; then
	cp "$scratch/sums" "$plans/sums.table"
	exit 0
fi

# refuses ARGUMENTS...: exit status 2 and one line that says what is wrong
refuses()
{
	"$plan" "$@" >"$scratch/out" 2>"$scratch/err"
	[ $? = 2 ] && [ "$(wc -l <"$scratch/err")" = 1 ]
	result $? "refuses $*: $(cat "$scratch/err")"
}
refuses "node:2 gpus:4"
refuses "node:[8,8"
refuses "node:[8,x]"
refuses "node:0"
refuses "rank:4" all_reduec
refuses "rank:4" all_reduce 1T
refuses "rank:4" all_reduce -- -5
refuses -r 4 "rank:4" broadcast
refuses -t float31 "rank:4"
refuses "node:[8] node:3"
refuses "gpu:8 rank:4"
refuses -r x "rank:4" broadcast
refuses -s -1 "rank:4"
refuses -P 1x "rank:4"
CORALE_ALGO=rnig refuses "rank:4"
CORALE_TIMEOUT=1e10 refuses "rank:4"
CORALE_ALGO=hier "$plan" "rank:1" >/dev/null 2>&1
result $? "one rank needs no algorithm"
CORALE_ALGO=all_to_all:^pairwise "$plan" "rank:4" all_to_all >/dev/null 2>"$scratch/err"
[ $? = 1 ] && grep -q "CORALE_ALGO=all_to_all:^pairwise" "$scratch/err"
result $? "says that CORALE_ALGO leaves nothing"

"$plan" -n --plot "$scratch/plot.svg" "node:2 gpu:4 nvlink:390 rail:50" all_reduce 8M >"$scratch/out" &&
	grep -q '^drawn:' "$scratch/out" && [ "$(grep -c '<rect' "$scratch/plot.svg")" -gt 100 ] &&
	[ "$(tail -n 1 "$scratch/plot.svg")" = "</svg>" ]
result $? "draws"
"$plan" >"$scratch/out" && grep -q '^machine: this one' "$scratch/out" && grep -Eq '^ +1G .*\*' "$scratch/out"
result $? "this machine, with a table"
"$plan" "node:2048 gpu:8 nvlink:390 rail:50" all_reduce 1G >"$scratch/out" && grep -q 'by hier' "$scratch/out"
result $? "16384 ranks"
"$plan" -n "node:64 gpu:8 nvlink:390 rail:50" broadcast 64M >"$scratch/out" && grep -q '^no room:.* broadcast flat (none)' "$scratch/out" &&
	! grep '^choices:' "$scratch/out" | grep -q ' flat,'
result $? "names the algorithms without room for their connections, and lists none of them"

[ "$("$plan" -n -s 0 "rank:4" all_reduce 64MB | sed 1q)" = "$("$plan" -n -s 0 "rank:4" all_reduce 64M | sed 1q)" ] && "$plan" "rank:4" all_reduce 64B >/dev/null
result $? "units with B"
for coll in all_gather_v reduce_scatter_v gather_v scatter_v; do
	"$plan" -n "gpu:2" $coll >"$scratch/out" && grep -q "^$coll: GPUs run it by the messages of an all_to_all_v" "$scratch/out" && grep -q ' p2p FIFO ' "$scratch/out"
	result $? "$coll on GPUs"
done
[ "$("$plan" --version)" = "$("${top_builddir:-.}/examples/corale-info" --version)" ]
result $? "--version"

# ns TEXT: "304.6 us" in ns
in_ns()
{
	awk -v text="$1" 'BEGIN { split(text, a, " "); print a[1] * (a[2] == "us" ? 1e3 : a[2] == "ms" ? 1e6 : a[2] == "s" ? 1e9 : 1) }'
}
# A block's bandwidth, the link's, and that of a limit of blocks, which is no more than either.
line=$(CORALE_MAX_CTAS=8 "$plan" -n -s 0 "gpu:4" all_reduce 64M | sed -n 's/^rates: .* of 8 blocks: .*bulk BULK \([^;]*\);.*/\1/p')
echo "$line" | awk -F', ' 'NF != 3 || $3 > 8 * $1 + 0.5 || $3 > $2 { bad = 1 } END { exit bad || !NR }'
result $? "bulk's rates with 8 blocks: $line"
# The time of what runs is above the bound and, of large calls, at most twice as long: the links that are described enter both.
for machine in "gpu:4 nvlink:5" "gpu:4 nvlink:20" "gpu:4" "gpu:4 nvlink:600" "gpu:8 nvlink:20 nvlink_us:30" "gpu:2 nvlink:900"; do
	for coll in all_reduce all_gather reduce_scatter all_to_all broadcast; do
		line=$("$plan" -n -s 0 "$machine" $coll 256M | grep '^modelled:')
		took=$(in_ns "$(expr "$line" : 'modelled: *\([0-9.]* [a-z]*\);')")
		least=$(in_ns "$(expr "$line" : '.* less than \([0-9.]* [a-z]*\)')")
		awk -v took="$took" -v least="$least" 'BEGIN { exit !(took >= least && took <= 2 * least) }'
		result $? "$machine, $coll: $line"
	done
done
echo "1..$number"
