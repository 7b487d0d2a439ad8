#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test/measure/beside_mpi on 2 ranks: a raw file of each collective, a failure that is named; its tables, from figures that are made up. TAP.
if [ -z "$MPIRUN" ]; then
	echo "1..0 # SKIP this build has no MPI"
	exit 0
fi
. "$top_srcdir/test/run/tap.sh"
export BESIDE_BIN="$top_builddir"

beside_mpi() # ARGUMENT...
{
	"$top_srcdir/test/measure/beside_mpi" --out "$scratch/out" --mpirun "$MPIRUN" --ranks 2 --node-sizes 1 "$@" >"$scratch/output" 2>&1 </dev/null
}

# fake COLLECTIVE BYTES OURS MPI ONE ONE_MPI: a raw file
fake()
{
	printf '# corale-perf-raw 1\tversion=0\tmpi=none\tranks=2\thosts=1\tnodes=2\n'
	printf 'coll bytes ours_us mpi_us ratio one_us one_mpi_us one_ratio\n' | tr ' ' '\t'
	echo "$@" | awk -v OFS='\t' '{ print $1, $2, $3, $4, $4 / $3, $5, $6, $6 / $5 }'
}

beside_mpi -- -b 64 -e 64 -n 2 --blocks 1 && [ "$(find "$scratch/out" -name '*-2-by1.raw' | wc -l)" = 9 ]
tell "a raw file of each collective"
! beside_mpi -- -b nonsense && grep -q 'FAILED.*all_reduce-2-by1.log' "$scratch/output" && [ ! -f "$scratch/out/all_reduce-2-by1.raw" ]
tell "a failure is named, and leaves no raw file"
! beside_mpi --bogus && grep -q "unknown argument '--bogus'" "$scratch/output"
tell "an unknown argument is an error"
if command -v python3 >/dev/null; then
	fake reduce 64 2 1 4 8 >"$scratch/a.raw"
	fake reduce 512 2 4 4 2 >"$scratch/b.raw"
	fake barrier 0 1 4 1 2 >"$scratch/c.raw"
	python3 "$top_srcdir/docs/beside_mpi.py" "$scratch"/?.raw >"$scratch/output" 2>&1
	grep -q '^| reduce | 0.50 (1.0 / 2.0) | 2.00 (4.0 / 2.0) | 1.00 |$' "$scratch/output" &&
		grep -q '^| reduce | 2.00 (8.0 / 4.0) | 0.50 (2.0 / 4.0) | 1.00 |$' "$scratch/output"
	tell "calls in a row, and one at a time"
	grep -q '^| barrier |  |  | 4.00 (4.0 / 1.0) |$' "$scratch/output" && grep -q '^| all |  |  | 1.59 |$' "$scratch/output" &&
		grep -q '^Corale is faster in 2 of 3.$' "$scratch/output"
	tell "all of them"
	fake reduce 512 2 8 4 2 >"$scratch/d.raw"
	fake reduce 512 2 10 4 2 >"$scratch/e.raw"
	python3 "$top_srcdir/docs/beside_mpi.py" --worst "$scratch"/?.raw >"$scratch/output" 2>&1
	grep -q '^| reduce | 0.50 at 64 B, \*\*1.41\*\* | 0.50 at 512 B, \*\*1.00\*\* | 1.00 |$' "$scratch/output"
	tell "the least of each collective, of medians"
else
	skip "tables" "no python3"
fi
echo "1..$number"
