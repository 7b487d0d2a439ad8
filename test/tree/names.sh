#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each source names its licence, comments name files that exist, and docs/design.md has the numbers of test/call/call_path.table. TAP.
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
. "$top_srcdir/test/run/tap.sh"
cd "$top_srcdir" || exit 1

find lib kernels mpi_glue pmpi_glue nccl_glue examples test include quickstart docs m4 packaging .ci -name 'build*' -prune -o -type f -print 2>/dev/null | sort >"$scratch/files"

# "file:line: name" of each file that comments of C name and that is not there: by the end of its path, where one is given. X stands for any name;
# those named in the list are NCCL's, and names in <> are the system's.
strangers()
{
	grep -E '^(lib|kernels|[a-z]*_glue|examples|test|include)/.*\.(c|h|cu|cuh|cc|def)$' "$scratch/files" | xargs awk -v files="$scratch/files" '
	BEGIN {
		while ((getline path < files) > 0)
			for (end = path; end != ""; end = end ~ /\// ? substr(end, index(end, "/") + 1) : "")
				known[end] = 1
		known["nccl_device.h"] = known["src/graph/topo.h"] = 1
	}
	FNR == 1 { inside = 0 }
	{
		line = $0
		for (text = ""; line != "";) {
			mark = index(line, inside ? "*/" : "/*")
			if (inside) text = text " " (mark ? substr(line, 1, mark - 1) : line)
			line = mark ? substr(line, mark + 2) : ""
			if (mark) inside = !inside
		}
		gsub(/<[^>]*>/, "", text)
		while (match(text, /[A-Za-z0-9_\/-]*[A-Za-z0-9_]\.(cuh|cu|cc|c|h|sh|py|def|table)([^A-Za-z0-9_.]|\.?$|\. )/)) {
			name = substr(text, RSTART, RLENGTH)
			sub(/[^A-Za-z0-9_]*$/, "", name)
			if (!(name in known) && name !~ /(^|\/)X\./) print FILENAME ":" FNR ": " name
			text = substr(text, RSTART + RLENGTH)
		}
	}'
}

strangers >"$scratch/strangers"
cp "$scratch/strangers" "$scratch/output"
[ ! -s "$scratch/strangers" ]
tell "every file that a comment names is there"

grep -E '\.(c|h|cu|cuh|cc|cpp|def|sh|py|awk|map|[fF]90)$|^m4/corale_|^quickstart$' "$scratch/files" | while read -r file; do
	head -n 3 "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' || echo "$file"
done >"$scratch/output"
[ ! -s "$scratch/output" ]
tell "every source has its SPDX line"

# The walks of calls: "... 42 functions, 10 deep".
says()
{
	set -- "$1" $(awk -v call="$2" '$1 == call { print $2, $3 }' test/call/call_path.table)
	grep "^\*\*The walk of a call\*\* on $1" docs/design.md | cut -c 1-120 >"$scratch/output"
	grep -q "^\*\*The walk of a call\*\* on $1.*: $2 functions, $3 deep" docs/design.md
	tell "docs/design.md has the walk of a call on $1: $2 functions, $3 deep"
}
says hosts all_reduce
says 'the GPUs' gpu_all_reduce
echo "1..$number"
