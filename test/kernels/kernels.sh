#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Registers, stack and spills of each kernel for sm_90, as ptxas counted them in this build (kernels/*.ptxas beside the objects), held to
# test/kernels/kernels.table. What grows fails; what shrinks, comes or goes asks for the table to be written anew, so that a gain is
# kept. Spills are bytes of stores and loads, functions that are not inlined included. Dynamic shared memory is the most that a launch gives, which its
# source notes as a symbol: dynamic_shared.KERNEL. TAP.
# "test/kernels/kernels.sh print" in a build directory prints the table.
top=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
. "$top/test/run/tap.sh"
table=$top/test/kernels/kernels.table
builddir=${top_builddir:-.}

# Kernels whose launches give shared memory, and its bytes, in hexadecimal.
dynamic()
{
	for object in "$builddir"/kernels/*.o "$builddir"/kernels/.libs/*.o; do
		[ ! -e "$object" ] || nm "$object" | sed -n 's/^\([0-9a-f]*\) a dynamic_shared\.\(.*\)/\2 \1/p'
	done | sort -u
}

# A line for each kernel, by name: its source, registers, bytes of stack, spill stores and loads, dynamic shared memory.
list()
{
	dynamic | while read -r name bytes; do echo "$name $((0x$bytes))"; done >"$scratch/decimal"
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
	done | c++filt | sed 's/^void //; s/(\([^()]*\)) / /; s/, /,/g' |
		awk 'FILENAME == ARGV[1] { bytes[$1] = $2; next } { name = $1; sub(/<.*/, "", name); print $0, (name in bytes ? bytes[name] : 0) }' "$scratch/decimal" - |
		LC_ALL=C sort
}

# With which compiler the table was made: another one counts otherwise.
compiler() { $(sed -n 's/^NVCC = //p' "$builddir/Makefile") --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/nvcc \1/p'; }

print()
{
	printf '# %s, sm_90\n# kernel, source, registers, stack, spill stores, spill loads, shared memory of a launch\n' "$(compiler)"
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
awk 'FILENAME == ARGV[1] { for (i = 3; i <= 7; i++) old[$1, i] = $i; was[$1] = 1; next }
{
	is[$1] = 1
	if (!was[$1]) { print "update: " $1 " of " $2 " is new"; next }
	for (i = 3; i <= 7; i++)
		if ($i != old[$1, i])
			print ($i + 0 > old[$1, i] + 0 ? "grew: " : "update: ") $1 " of " $2 ", " what[i] ": " old[$1, i] " before, now " $i
}
BEGIN { split("- - registers stack spill-stores spill-loads dynamic-shared-memory", what) }
END { for (name in was) if (!is[name]) print "update: " name " is gone" }' "$scratch/old" "$scratch/new" >"$scratch/differences"
grep '^grew' "$scratch/differences" >"$scratch/output"
[ ! -s "$scratch/output" ]
tell "no kernel of $(wc -l <"$scratch/new") takes more registers, stack, spills or shared memory than before"
grep '^update' "$scratch/differences" >"$scratch/output"
[ ! -s "$scratch/output" ] || { echo "test/kernels/kernels.sh print >test/kernels/kernels.table" >>"$scratch/output"; false; }
tell "the table is that of this build"
echo "1..$number"
