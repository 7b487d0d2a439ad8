#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every mutant can be made of the sources as they are: its script changes the file that it names. To make, build and run them takes minutes:
# test/mutants/mutants.sh, test/emulation/mutants.sh, and of the MPI door test/mutants/mutants_door.sh and mutants_peer.sh. TAP, a case a table.
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
. "$top_srcdir/test/run/tap.sh"

mutant() # NAME FILE SED CASE...
{
	sed "$3" "$top_srcdir/$2" >"$scratch/mutated" 2>&1 && ! cmp -s "$top_srcdir/$2" "$scratch/mutated" ||
		echo "$2: $1"
}

for table in test/mutants/mutants.table test/emulation/mutants.table; do
	. "$top_srcdir/$table" >"$scratch/output"
	[ ! -s "$scratch/output" ]
	tell "mutants of $table can be made"
done
# Those of the MPI door are in its scripts, a line each.
for script in test/mutants/mutants_door.sh test/mutants/mutants_peer.sh; do
	sed -n 's/^\(\[\[.*|| \)\{0,1\}mutant "/mutant "/p' "$top_srcdir/$script" >"$scratch/table"
	. "$scratch/table" >"$scratch/output"
	[ -s "$scratch/table" ] && [ ! -s "$scratch/output" ]
	tell "mutants of $script can be made"
done
echo "1..$number"
