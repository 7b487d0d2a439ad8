#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Which tests and mutants each source has. A test of a source is one whose program is built with it (Makefile.am), that has its name (test/FOLDER/X_test),
# that lies in its folder under test/ and includes its header, that finds a mutant of it, or that test/tree/sources.table names. Each source has one, names that are written down
# exist, and docs/testing.md has the table and what each test says of itself at its head. TAP.
# "test/tree/sources.sh update" writes these parts of docs/testing.md anew; "test/tree/sources.sh print" prints a line a source: its tests, its mutants.
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
. "$top_srcdir/test/run/tap.sh"
cd "$top_srcdir" || exit 1

find lib kernels mpi_glue nccl_glue pmpi_glue -name '.*' -prune -o -type f -print | grep -E '\.(c|h|cu|cuh|def)$' | sort >"$scratch/sources"
find test -name '.*' -prune -o -type f -print | grep -E '\.(c|cc|cu|sh|F90)$' | sort >"$scratch/tests"

# "source test" of each mutant: those of the tables name file and tests, those of scripts a file.
mutant() # NAME FILE SED TEST/CASE...
{
	printf '%s\t%s\n' "$2" "${only:-${4%%/*}}"
}
{
	only=
	. ./test/mutants/mutants.table
	only=emulation_test
	. ./test/emulation/mutants.table
	for pair in peer:pmpi_peer door:pmpi_wrong gpu:gpu_order_test; do
		sed -n 's,^	*mutant "[^"]*" \([a-z_/.]*\) .*,\1	'"${pair#*:}",p "test/mutants/mutants_${pair%:*}.sh"
	done
} >"$scratch/mutants"

# "source test" of each pair. A source is its path without its end; files that differ in it are one.
sed ':line
/\\$/{N;s/\\\n//;b line
}' Makefile.am >"$scratch/Makefile"
xargs grep -H '^# *include "' <"$scratch/tests" >"$scratch/includes"
: >"$scratch/strange"
awk -v OFS='\t' -v print_to="$scratch/strange" '
function stem(path) { sub(/\.[a-z0-9A-Z]*$/, "", path); return path }
function name(path) { sub(/.*\//, "", path); return stem(path) }
function home(folder) { return folder == "emulation" ? "kernels" : (folder in at) ? at[folder] : "lib/" folder }
function pair(source, test) {
	if (!(source in is_source) || (source, test) in seen) return 0
	seen[source, test] = 1
	tests[source] = tests[source] " " test
	return 1
}
BEGIN { at["nccl"] = "nccl_glue"; at["pmpi"] = "pmpi_glue"; at["kernels"] = "kernels" }
FILENAME ~ /sources$/ { if (!is_source[stem($1)]++) order[++n] = stem($1); next }
FILENAME ~ /tests$/ {
	split($1, part, "/")
	is_test[name($1)] = 1
	base = name($1)
	if (sub(/_test$/, "", base)) {
		pair(home(part[2]) "/" base, name($1))
		sub(/^[a-z]*_/, "", base)
		pair(home(part[2]) "/" base, name($1))
	}
	next
}
FILENAME ~ /mutants$/ { pair(stem($1), $2); mutants[stem($1)]++; next }
FILENAME ~ /Makefile$/ {
	if ($1 ~ /^test_.*_SOURCES$/ && name($3) in is_test)
		for (i = 4; i <= NF; i++) pair(stem($i), name($3))
	next
}
FILENAME ~ /includes$/ {
	split($0, part, /[:"]/)
	split(part[1], folder, "/")
	source = stem((stem("lib/" part[3]) in is_source ? "lib/" : "") part[3])
	if (part[1] ~ /_test\./ && index(source, home(folder[2]) "/") == 1) pair(source, name(part[1]))
	next
}
/^#/ { next }
{
	pattern = $1
	gsub(/\*/, ".*", pattern)
	found = used = 0
	for (i = 1; i <= n; i++)
		if (order[i] ~ "^" pattern "$") {
			found = 1
			for (j = 2; j <= NF; j++) used += pair(order[i], $j)
		}
	if (!found) print "there is no source " $1 >print_to
	else if (!used) print "all tests of " $1 " are found without this line" >print_to
	for (j = 2; j <= NF; j++)
		if (!($j in is_test) && (getline line <$j) < 0) print "there is no test " $j >print_to
}
END { for (i = 1; i <= n; i++) print order[i], substr(tests[order[i]], 2), mutants[order[i]] + 0 }' \
	"$scratch/sources" "$scratch/tests" "$scratch/mutants" "$scratch/Makefile" "$scratch/includes" test/tree/sources.table >"$scratch/table"

# Sources of one folder with the same tests share a row; the number of a source's mutants stands behind it.
print_sources()
{
	printf '| sources (mutants) | tests |\n|---|---|\n'
	awk -F '\t' '{
		base = $1
		sub(/.*\//, "", base)
		key = substr($1, 1, length($1) - length(base)) "\t" $2
		if (!(key in names)) order[++n] = key
		names[key] = names[key] " " base ($3 ? " (" $3 ")" : "")
	}
	END {
		for (i = 1; i <= n; i++) {
			split(order[i], part, "\t")
			gsub(/ /, ", ", part[2])
			print "| `" part[1] "`" names[order[i]] " | " part[2] " |"
		}
	}' "$scratch/table"
}

# The first sentence of each test at its head.
print_tests()
{
	printf '| test | what it says of itself |\n|---|---|\n'
	grep -v -e '^test/measure/' -e '^test/outside/' "$scratch/tests" | xargs grep -lE '^(int )?main\(|_run_group_tests|^# .*TAP[.,]' | xargs awk '
	function tell() {
		sub(/ *TAP[.:].*/, "", text)
		sub(/^ */, "", text)
		if (match(text, /\.( |$)/)) text = substr(text, 1, RSTART - 1)
		gsub(/\|/, "\\|", text)
		sub("^test/", "", file)
		if (text != "") print "| `" file "` | " text " |"
	}
	FNR == 1 { if (file) tell(); file = FILENAME; text = ""; ended = 0; next }
	ended || /SPDX/ { next }
	/^(\/\*| \*|# )/ {
		line = $0
		if (line ~ /\*\//) ended = 1
		gsub(/^(\/\*| \*|# )|\*\/.*$/, "", line)
		text = text line (line ~ / $/ ? "" : " ")
		gsub(/  +/, " ", text)
		next
	}
	{ ended = text != "" }
	END { tell() }'
}

page=docs/testing.md
part() { sed -n "/^<!-- $1:/,/^<!-- end of $1 -->/p" "$page" | grep '^|'; }
case $1 in
print) cat "$scratch/strange" "$scratch/table"; exit ;;
update)
	for word in tests sources; do
		print_$word >"$scratch/new"
		sed -i -e "/^<!-- $word:/,/^<!-- end of $word -->/{/^|/d;}" -e "/^<!-- $word:/r $scratch/new" "$page"
	done
	exit ;;
esac
awk -F '\t' '$2 == "" { print $1 " has no test: name one in test/tree/sources.table" }' "$scratch/table" >"$scratch/output"
[ ! -s "$scratch/output" ] && [ "$(wc -l <"$scratch/table")" -gt 300 ]
tell "each source has a test"
cp "$scratch/strange" "$scratch/output"
[ ! -s "$scratch/strange" ]
tell "test/tree/sources.table names sources and tests that are there, and none that is found without it"
for word in tests sources; do
	print_$word >"$scratch/new"
	part $word | diff - "$scratch/new" >"$scratch/output"
	tell "$page has the table of $word: if not, test/tree/sources.sh update"
done
awk 'FNR == 1 && NR > 1 && !was { print last } FNR == 1 { was = 0; last = FILENAME } FNR <= 4 && /\/\*/ && !/SPDX/ { was = 1 }
	END { if (!was) print last }' $(grep -E '\.(c|cc|cu)$' "$scratch/tests") >"$scratch/output"
[ ! -s "$scratch/output" ]
tell "each source of a test says at its head what it proves"
words=$(awk '/^```/ { fenced = !fenced; next } !fenced && !/^(\||    )/ { words += NF } END { print words }' "$page")
echo "$words words" >"$scratch/output"
[ "$words" -le 2000 ]
tell "$page has at most 2,000 words outside of tables and code"
echo "1..$number"
