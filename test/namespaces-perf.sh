# Part of namespaces.sh: send/recv through our transport against ucx_perftest over the same veth pair, in turns.
# Prints medians over ROUNDS (7) rounds for each of SIZES, and ours as a fraction of ucx_perftest's best.
raw=${1:-/dev/null}
program=${TRANSPORT_PERF:-$build/examples/transport_perf}
rounds=${ROUNDS:-7}
sizes=${SIZES:-4194304 16777216 67108864}
command -v ucx_perftest >/dev/null || skip "ucx_perftest is not installed"
[ -x "$program" ] || skip "$program is not built"
: >"$raw"

# GB/s of one ucx_perftest; its MB are 2^20 bytes.
perftest() { # TEST BYTES
	local test=$1 bytes=$2 count=$((400000000 / $2)) server
	[ "$test" = ucp_put_bw ] && count=$((count / 8))
	[ $count -gt 2 ] || count=3
	UCX_NET_DEVICES=data0 on nodeb ucx_perftest -t "$test" -s "$bytes" >/dev/null 2>&1 &
	server=$!
	sleep 0.5
	UCX_NET_DEVICES=data0 on nodea timeout 100 ucx_perftest -t "$test" -s "$bytes" -n $count -w 2 $data.3 2>&1 |
		tee -a "$raw" | awk '/^Final:/ { printf "%.3f", $7 * 1.048576 / 1000 }'
	wait $server
}

ours() { # MESSAGE BYTES
	PER_NODE=1 ranks -n 2 "$program" -m "$1" -b "$2" -e "$2" -s 0.4 -w ${WINDOW:-4} 2>&1 |
		tee -a "$raw" | awk '$1 ~ /^[0-9]+$/ { print $2 }'
}

# The median of the lines on stdin.
median() {
	sort -g | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : 0 }'
}

for round in $(seq $rounds); do
	for bytes in $sizes; do
		for test in ${TESTS:-ucp_put_bw tag_bw ucp_am_bw}; do
			echo "# round $round, $test, $bytes bytes" >>"$raw"
			perftest $test $bytes >>"$state/$test.$bytes"
			echo >>"$state/$test.$bytes"
		done
		for message in ${MESSAGES:-auto}; do
			echo "# round $round, ours by $message, $bytes bytes" >>"$raw"
			ours $message $bytes >>"$state/ours-$message.$bytes"
		done
	done
done
printf '%12s' bytes ${TESTS:-ucp_put_bw tag_bw ucp_am_bw} $(printf 'ours-%s ' ${MESSAGES:-auto}) ours/best
echo "   (GB/s, medians of $rounds)"
for bytes in $sizes; do
	for column in ${TESTS:-ucp_put_bw tag_bw ucp_am_bw} $(printf 'ours-%s ' ${MESSAGES:-auto}); do
		echo "$column $(grep . "$state/$column.$bytes" | median)"
	done | awk -v bytes=$bytes '
		{ row = row sprintf("%12s", $2) }
		$1 !~ /^ours/ && $2 > best { best = $2 }
		$1 ~ /^ours/ && !ours { ours = $2 }
		END { printf "%12s%s%12.2f\n", bytes, row, best ? ours / best : 0 }'
done
