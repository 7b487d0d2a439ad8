#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test/measure/choices on 2 and 3 ranks: every algorithm beside the choice, uneven nodes, refusals; its tables, from figures that are made up. TAP.
if [ -z "$MPIRUN" ]; then
	echo "1..0 # SKIP this build has no MPI"
	exit 0
fi
. "$top_srcdir/test/run/tap.sh"
export CHOICES_BIN="$top_builddir"

choices() # ARGUMENT...
{
	"$top_srcdir/test/measure/choices" --out "$scratch/out" "$@" >"$scratch/output" 2>&1 </dev/null
}

# Every line of raw file $1 has a positive time, and a model unless it is MPI's, and no candidate comes twice for a call; prints
# collective, kind and algorithm of each.
algorithms_of()
{
	awk -F '\t' 'NR > 2 {
		if (NF != 9 || $6 <= 0 || $9 < 1 || ($4 == "mpi") != ($7 == "") || seen[$1, $2, $4, $5]++) exit 1
		print $1, $4, $5 }' "$1"
}

choices --shapes "2x1 2,1" --sizes 4096 --time 1 --vs-mpi && [ -f "$scratch/out/1,1.raw" ]
tell "two machines"
algorithms_of "$scratch/out/2,1.raw" >"$scratch/seen" && head -n 1 "$scratch/out/2,1.raw" | grep -q 'ranks=3.*nodes=2,1$'
tell "uneven nodes, and every line whole"
(
	for coll in all_reduce all_gather reduce_scatter broadcast all_to_all reduce gather scatter barrier; do
		for kind in choice forced mpi; do
			grep -q "^$coll $kind " "$scratch/seen" || { echo "no $coll $kind"; exit 1; }
		done
	done
) >"$scratch/output"
tell "every collective: the choice, a forced algorithm, MPI"
cp "$scratch/seen" "$scratch/output"
grep -q '^all_reduce forced ring' "$scratch/seen" && grep -q '^all_reduce forced hier_ring' "$scratch/seen" &&
	grep -q '^broadcast forced hier_binomial' "$scratch/seen"
tell "algorithms for flat and for shared nodes"
algorithms_of "$scratch/out/1,1.raw" >"$scratch/seen" && ! grep -q 'forced hier' "$scratch/seen"
tell "none that needs shared nodes where there are none"
choices --shapes 2x1 --collectives gather --sizes 8,4096 --time 1 && algorithms_of "$scratch/out/1,1.raw" >"$scratch/seen" &&
	[ "$(cut -f 1,2 "$scratch/out/1,1.raw" | sed 1,2d | sort -u | tr '\t\n' '  ')" = "gather 4096 gather 8 " ]
tell "only the collective and the sizes that are asked for"
! choices --shapes 2x1 --collectives barier --time 1 && grep -q '^usage: ' "$scratch/output" && [ ! -f "$scratch/out/1,1.raw" ]
tell "an unknown collective is an error"
! choices --shapes 2-1 && grep -q 'is no machine' "$scratch/output"
tell "an unknown machine is an error"
! choices --bogus && grep -q "unknown argument '--bogus'" "$scratch/output"
tell "an unknown argument is an error"

# fake LINE...: a raw file of one machine; a line's fields are separated by spaces.
fake()
{
	printf '# corale-choices 1\tversion=0\tmpi=none\tranks=2\tcores=2\tnodes=1,1\n'
	printf 'coll bytes count kind algo us model_us spread_us calls\n' | tr ' ' '\t'
	printf '%s\n' "$@" | tr ' ' '\t'
}

if command -v python3 >/dev/null; then
	fake 'reduce 8 2 choice chain 10 5 0 9' 'reduce 8 2 forced chain 10 5 0 9' 'reduce 8 2 forced ring 9 5 0 9' 'reduce 8 2 mpi mpi 20  0 9' \
		'gather 8 2 choice flat 80 9 0 9' 'gather 8 2 forced flat 80 9 0 9' 'gather 8 2 forced hier 40 9 0 9' \
		'gather 8 2 again_choice flat 90 9 0 9' 'gather 8 2 again_forced hier 30 9 0 9' >"$scratch/fake.raw"
	python3 "$top_srcdir/test/measure/choices.py" "$scratch/fake.raw" >"$scratch/output" 2>&1
	grep -q '^2x1  *reduce .* 1.11  *20.0  *2.00  *0.50  *ring 9.0/5.0  chain 10.0/5.0$' "$scratch/output" &&
		grep -q '^all  *2  *1 (50 %)  *1.826  *3.00  *2.00  *1 of 1$' "$scratch/output"
	tell "choices within the bound, and the mean ratios"
	grep -q '^Above 1.5, measured again: 1$' "$scratch/output" && grep -q '2x1 gather 8: flat 90.0 us, hier 30.0 us: 3.00$' "$scratch/output"
	tell "what was measured again counts"
else
	skip "tables" "no python3"
fi
echo "1..$number"
