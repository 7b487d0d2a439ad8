#!/bin/sh
# Registers, stack and spills of each kernel for sm_90, as ptxas counted them in this build (kernels/*.ptxas beside the objects), held to
# test/kernels.table. What grows fails; what shrinks, comes or goes asks for the table to be written anew, so that a gain is
# kept. Spills are bytes of stores and loads, functions that are not inlined included. TAP.
# "test/kernels.sh print" in a build directory prints the table.
top=$(cd "${top_srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
. "$top/test/tap.sh"
table=$top/test/kernels.table
builddir=${top_builddir:-.}

# A line for each kernel, by name: its source, registers, bytes of stack, spill stores and loads.
list()
{
	for file in "$builddir"/kernels/*.ptxas; do
		awk -v file="$(basename "$file" .ptxas)" '
		function end() { if (name != "") print name, file, registers, stack, stores, loads }
		/Compiling entry function/ {
			end()
			split($0, part, "\047")
			name = part[4] == "sm_90" ? part[2] : ""
			stack = stores = loads = frames = 0
		}
		/bytes stack frame/ { if (!frames++) stack = $1; stores += $5; loads += $9 }
		/Used [0-9]+ registers/ {
			registers = $5
			if (match($0, /[0-9]+ bytes cumulative stack size/)) stack = substr($0, RSTART) + 0
		}
		END { end() }' "$file"
	done | c++filt | sed 's/^void //; s/(\([^()]*\)) / /; s/, /,/g' | LC_ALL=C sort
}

# With which compiler the table was made: another one counts otherwise.
compiler() { $(sed -n 's/^NVCC = //p' "$builddir/Makefile") --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/nvcc \1/p'; }

print()
{
	printf '# %s, sm_90\n# kernel, source, registers, stack, spill stores, spill loads\n' "$(compiler)"
	list
}

skip()
{
	echo "1..0 # SKIP $1"
	exit 0
}

set -- "$1" "$builddir"/kernels/*.ptxas
[ -e "$2" ] || skip "no CUDA in this build"
if [ "$1" = print ]; then
	print
	exit
fi
[ "$(sed -n '1s/^# \(.*\), sm_90$/\1/p' "$table")" = "$(compiler)" ] || skip "the table is of another compiler than $(compiler)"
list >"$scratch/new"
[ -s "$scratch/new" ] || skip "not built for sm_90"
grep -v '^#' "$table" >"$scratch/old"
# Prints differences: "grew", or "update" for all that is no loss.
awk 'FILENAME == ARGV[1] { for (i = 3; i <= 6; i++) old[$1, i] = $i; was[$1] = 1; next }
{
	is[$1] = 1
	if (!was[$1]) { print "update: " $1 " of " $2 " is new"; next }
	for (i = 3; i <= 6; i++)
		if ($i != old[$1, i])
			print ($i + 0 > old[$1, i] + 0 ? "grew: " : "update: ") $1 " of " $2 ", " what[i] ": " old[$1, i] " before, now " $i
}
BEGIN { split("- - registers stack spill-stores spill-loads", what) }
END { for (name in was) if (!is[name]) print "update: " name " is gone" }' "$scratch/old" "$scratch/new" >"$scratch/differences"
grep '^grew' "$scratch/differences" >"$scratch/output"
[ ! -s "$scratch/output" ]
tell "no kernel of $(wc -l <"$scratch/new") takes more registers, stack or spills than before"
grep '^update' "$scratch/differences" >"$scratch/output"
[ ! -s "$scratch/output" ] || { echo "test/kernels.sh print >test/kernels.table" >>"$scratch/output"; false; }
tell "the table is that of this build"
echo "1..$number"
