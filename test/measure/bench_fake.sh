#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test/measure/bench with programs that only pretend to measure: what is kept, gone on with, named when it fails, left out. TAP.
bench=$top_srcdir/test/measure/bench
. "$top_srcdir/test/run/tap.sh"
mkdir "$scratch/bin" "$scratch/path"

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
coll=${name#corale_} mode=eager raw='' nccl=no beside=no sms=0 every=0 types=float32 memory=plain
while [ $# -gt 0 ]; do
	case $1 in
	-G) mode=graph ;;
	-R) memory=allocated ;;
	-d) types="float32 int32 float64" ;;
	--beside) beside=yes ;;
	--beside-sms) sms=$2 ;;
	--every) every=$2 ;;
	--raw) raw=$2 ;;
	--vs-nccl) nccl=yes ;;
	esac
	shift
done
head="version=0.1.0	mpi=made up	ranks=$FAKE_RANKS	hosts=1	nodes=1	device=cuda	gpu=NVIDIA H200	mode=$mode	registration=$memory"
[ $nccl = no ] || head="$head	nccl=NCCL 1.2.3 somewhere"
tab='	'
if [ $beside = yes ]; then
	{
		echo "# corale-perf-beside 1$tab$head${tab}sms=$sms${tab}every=$every"
		printf 'coll\tbytes\ttype\tway\tplace\talone_us\tbeside_us\tproduct_alone_us\tproduct_beside_us\tblocks\n'
		printf '%s\t268435456\tfloat32\tcorale\tout\t1000\t1250\t1500\t1530\t5\n' "${coll%_perf}"
	} >"$raw"
	exit 0
fi
# Ours 2 us and 300 GB/s, NCCL 4 us and 350 GB/s: 14 sizes, of which the last 6 are slower. Integers take 1.2 times as
# long, a forced way 1.05 times, LL128 twice, but SENTINEL from 1 MB on 0.8 times.
awk -v OFS='\t' -v coll="${coll%_perf}" -v head="$head" -v types="$types" -v proto="$CORALE_PROTO" -v nccl=$nccl 'BEGIN {
	print "# corale-perf-raw 1", head
	print "coll", "bytes", "type", "us", "algbw", "busbw", "wrong", "ours_us", "nccl_stock_us", "nccl_best_us",
		"best_ratio", "stock_ratio", "nccl_noise"
	for (n = split(types, type, " "); n; n--)
		for (bytes = 8; bytes <= 512 * 1024 * 1024; bytes *= 4) {
			us = 2 + bytes / 300e3
			us *= proto == "" || proto == "auto" ? 1 : proto == "LL128" ? 2 : proto == "SENTINEL" && bytes > 1e6 ? 0.8 : 1.05
			us *= type[n] == "int32" ? 1.2 : 1
			best = 4 + bytes / 350e3
			line = coll OFS bytes OFS type[n] OFS us OFS bytes / us / 1e3 OFS 1.5 * bytes / us / 1e3 OFS 0
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
run full --out "$scratch/cut" --seconds 0 && [ "$(runs)" = 0 ] && says 'not begun after 0 s'
tell "no measurement is begun after the time that was given"
run quick --out "$out" --only 'send*' && [ "$(runs)" = 0 ]
tell "only what is asked for"
! run quick --out "$out" --nccl "$scratch/none" && says 'there is no such file'
tell "an NCCL that is not there is an error"
! run quick --bogus && says "unknown argument '--bogus'"
tell "an unknown argument is an error"
run hosts --list && says '^all_reduce-4-nodes .*CORALE_NODE_SIZE=2 .*corale_all_reduce_perf .*--vs-mpi' && ! says '--device cuda'
tell "host memory beside MPI, on one node and two"
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
	run full --out "$scratch/full" --nccl "$scratch/nccl"
	page=$scratch/full/performance.md
	grep -q '^| int32 | \*\*2.40 (1.20)\*\* |' "$page" && grep -q '^| float64 | 2.00 (1.00) |' "$page"
	tell "other types beside float32"
	grep -q '^| 512 B | 2.00 (0.95 CE) |' "$page" && grep -q '^| 2 MB | \*\*8.99 (1.25 SENTINEL)\*\* |' "$page"
	tell "the choice beside the best forced way"
	grep -q '^| 4 | all_reduce 256 MB | 124 | corale, allocated | 1000 | 1250 | +25.0 % | 1500 | 1530 | +2.0 % |' "$page"
	tell "calls beside products"
	grep -q '^| all_to_all, 4 GPUs, at most 8 blocks | ' "$page"
	tell "few blocks"
	FAKE_FAILS='cuda_stress --parts mix*' run stress --out "$scratch/stress"
	grep -q '^- matrix: PASS cuda_matrix all' "$scratch/stress/performance.md" &&
		grep -q '^- stress_mix: ended with status 3' "$scratch/stress/performance.md"
	tell "tests that passed and failed"
else
	skip "tables and plots" "no python3"
fi
echo "1..$number"
