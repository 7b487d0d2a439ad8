#!/bin/sh
# test/bench with programs that only pretend to measure: what is kept, gone on with, named when it fails, left out. TAP.
bench=$top_srcdir/test/bench
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/path"
number=0

tell() # DESCRIPTION, after a command
{
	[ $? = 0 ] && word=ok || word="not ok"
	number=$((number + 1))
	echo "$word $number - $1"
	[ "$word" = ok ] || sed 's/^/# /' "$scratch/output"
}

# A launcher that runs one rank; a program that makes figures up, counts its runs, and fails where it is told to.
cat >"$scratch/path/mpirun" <<'END'
#!/bin/sh
[ "$1" = -n ] || exit 0
FAKE_RANKS=$2
export FAKE_RANKS
shift 2
exec "$@"
END
cat >"$scratch/bin/fake" <<'END'
#!/bin/sh
name=$(basename "$0")
echo "$name $*" >>"$FAKE_RUNS"
case "$name $*" in $FAKE_FAILS) echo "corale: ERROR made up"; exit 3 ;; esac
case $name in corale_*) ;; *) echo "PASS $name all"; exit 0 ;; esac
coll=${name#corale_} mode=eager raw='' nccl=no
while [ $# -gt 0 ]; do
	case $1 in
	-G) mode=graph ;;
	--raw) raw=$2 ;;
	--vs-nccl) nccl=yes ;;
	esac
	shift
done
# Ours 2 us and 300 GB/s, NCCL 4 us and 350 GB/s: 14 sizes, of which the last 6 are slower.
awk -v OFS='\t' -v coll="${coll%_perf}" -v ranks="$FAKE_RANKS" -v mode=$mode -v nccl=$nccl 'BEGIN {
	print "# corale-perf-raw 1", "version=0.1.0", "mpi=made up", "ranks=" ranks, "hosts=1", "nodes=1", "device=cuda",
		"gpu=NVIDIA H200", "mode=" mode, "registration=plain", "nccl=" (nccl == "yes" ? "NCCL 1.2.3 somewhere" : "")
	print "coll", "bytes", "type", "us", "algbw", "busbw", "wrong", "ours_us", "nccl_stock_us", "nccl_best_us",
		"best_ratio", "stock_ratio", "nccl_noise"
	for (bytes = 8; bytes <= 512 * 1024 * 1024; bytes *= 4) {
		us = 2 + bytes / 300e3
		best = 4 + bytes / 350e3
		line = coll OFS bytes OFS "float32" OFS us OFS bytes / us / 1e3 OFS 1.5 * bytes / us / 1e3 OFS 0
		if (nccl == "yes")
			print line, us, best + 1, best, best / us, (best + 1) / us, 0.99
		else
			print line, "", "", "", "", "", ""
	}
}' >"$raw"
[ $nccl = no ] || echo "# vs nccl best: min 0.86 at 536870912, geomean 1.5, noise 0.99"
END
chmod +x "$scratch/path/mpirun" "$scratch/bin/fake"
for program in corale_all_reduce_perf corale_all_gather_perf corale_reduce_scatter_perf corale_all_to_all_perf \
	corale_broadcast_perf corale_sendrecv_perf cuda_matrix cuda_stress; do
	ln -s fake "$scratch/bin/$program"
done
touch "$scratch/nccl"
export FAKE_RUNS="$scratch/runs" FAKE_FAILS=nothing
export BENCH_BIN="$scratch/bin" PATH="$scratch/path:$PATH"

run() # ARGUMENT...: its status; what it said is in output
{
	: >"$FAKE_RUNS"
	"$bench" "$@" --ranks 4 >"$scratch/output" 2>&1
}
runs() { wc -l <"$FAKE_RUNS"; }
says() { grep -q -e "$1" "$scratch/output"; }

out=$scratch/out
FAKE_FAILS='corale_broadcast_perf *-G*' run quick --out "$out" --nccl "$scratch/nccl"
[ $? = 1 ] && says 'FAILED: broadcast-4-graph' && says 'corale: ERROR made up'
tell "a failed measurement is named, with its reason"
[ "$(runs)" = 13 ] && [ "$(find "$out" -name '*.raw' | wc -l)" = 11 ] && [ -f "$out/broadcast-4-graph.failed" ]
tell "the others are not lost"
says 'left out check_lines: there is no cuda_lines'
tell "a program that is not there is left out by name"
run quick --out "$out" --nccl "$scratch/nccl" && [ "$(runs)" = 1 ] && [ ! -f "$out/broadcast-4-graph.failed" ] &&
	[ -f "$out/broadcast-4-graph.raw" ] && says '12 were there'
tell "the next run does only what failed"
rm "$out/all_reduce-4-eager.log"
run quick --out "$out" --nccl "$scratch/nccl" && [ "$(runs)" = 1 ]
tell "a measurement that did not end is done again"
run quick --out "$out" && [ "$(runs)" = 12 ] && says 'NCCL is left out'
tell "without NCCL it says so, and measures again what was measured otherwise"
run quick --out "$out" --only 'send*' && [ "$(runs)" = 0 ]
tell "only what is asked for"
! run quick --out "$out" --nccl "$scratch/none" && says 'there is no such file'
tell "an NCCL that is not there is an error"
! run quick --bogus && says "unknown argument '--bogus'"
tell "an unknown argument is an error"
if command -v python3 >/dev/null; then
	run quick --out "$scratch/again" --nccl "$scratch/nccl"
	grep -q '^| all_reduce | 0.86 at 512 MB; 1.[0-9]* (10 of 14) |' "$scratch/again/performance.md" &&
		grep -q '^| 512 MB | \*\*1792 / 1538\*\* |' "$scratch/again/performance.md" &&
		grep -q 'NCCL best, graph' "$scratch/again/plots/gpu-all_reduce-n4-busbw.svg" &&
		grep -q 'limit, 392.4 GB/s' "$scratch/again/plots/gpu-all_reduce-n4-busbw.svg"
	tell "tables and plots with NCCL"
	! grep -q NCCL "$out/plots/gpu-all_reduce-n4-busbw.svg" && grep -q 'NCCL left out' "$out/performance.md" &&
		grep -q '^| 512 MB | 1792 |' "$out/performance.md"
	tell "tables and plots without NCCL"
else
	echo "ok $((number + 1)) - tables and plots # SKIP no python3"
	number=$((number + 1))
fi
echo "1..$number"
