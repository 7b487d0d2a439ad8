#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# docs/settings.md has the library's own table of settings, links in the documentation lead to files that exist, and so do all files that docs/design.md and docs/adding.md name; pages are short. TAP.
# To renew the table: replace what is between the settings lines of docs/settings.md by corale-info --settings-markdown.
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
"$top_builddir/examples/corale-info" --settings-markdown >"$scratch/library"
sed -n '/^<!-- settings:/,/^<!-- end of settings -->/p' "$top_srcdir/docs/settings.md" | grep '^|' >"$scratch/page"
if diff "$scratch/page" "$scratch/library" >"$scratch/diff"; then
	echo "ok 1 - docs/settings.md has the library's settings"
else
	echo "not ok 1 - docs/settings.md has the library's settings"
	sed 's/^/# /' "$scratch/diff"
fi

# Prints the relative links of page $1 that lead nowhere. The release lacks docs/plots and docs/raw.tar.xz.
broken_links()
{
	grep -o '](\([^)]*\))' "$1" | sed 's/^](//; s/)$//; s/#.*//' | grep -v -e '^$' -e '://' -e '^plots/' -e '^raw\.tar\.xz$' -e '^\.\./plots/' | sort -u |
		while read -r target; do
			[ -e "$(dirname "$1")/$target" ] || echo "# $1: $target"
		done
}

for page in "$top_srcdir"/README.md "$top_srcdir"/docs/*.md "$top_srcdir"/docs/lab/*.md; do
	broken_links "$page"
done >"$scratch/broken"
if [ -s "$scratch/broken" ]; then
	echo "not ok 2 - links lead to files"
	cat "$scratch/broken"
else
	echo "ok 2 - links lead to files"
fi

# A name is a path from the top, or that of a file in one folder; * stands for any letters. Files that docs/adding.md has its reader make have an X, or ofi,
# in their names.
(cd "$top_srcdir" && find Makefile.am configure.ac ./*.in README.md CHANGELOG.md docs include lib kernels mpi_glue pmpi_glue nccl_glue examples test .ci -name raw -prune -o -type f -print 2>/dev/null) |
	sed 's,^\./,,' >"$scratch/files"
grep -oE '[A-Za-z0-9_./*-]+\.(c|h|cu|cuh|def|sh|am|ac|in|md|map|table|plan|py)\b' "$top_srcdir/docs/design.md" "$top_srcdir/docs/adding.md" -h | sort -u |
	awk 'NR == FNR { path[$0] = 1; sub(".*/", ""); name[$0] = 1; next }
	/(^|[\/_])(X|ofi)[._]|_ofi|\/ofi\// || $0 in path || $0 in name { next }
	/\*/ { pattern = $0; gsub(/\./, "\\.", pattern); gsub(/\*/, "[^/]*", pattern); found = 0
	       for (p in path) if (p ~ "(^|/)" pattern "$") { found = 1; break } }
	!/\*/ || !found { print "# " $0 }' "$scratch/files" - >"$scratch/gone"
[ -s "$scratch/gone" ] && word="not ok" || word=ok
echo "$word 3 - files that docs/design.md and docs/adding.md name are there"
cat "$scratch/gone"

# docs/design.md's examples of choices are those of today.
for name in $(env | sed -n 's/^\(CORALE_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
for door in "CORALE_MAX_CTAS=0" "CORALE_MAX_CTAS=32 CORALE_GPU_WINDOW=28M"; do
	# shellcheck disable=SC2086 # words
	env $door "$top_builddir/examples/corale-plan" -n gpu:4 all_reduce 1M | sed -n 's/^choices: *plain memory: //p' >"$scratch/choices"
	[ -s "$scratch/choices" ] && grep -qF -f "$scratch/choices" "$top_srcdir/docs/design.md" || echo "not there: $(cat "$scratch/choices")"
done >"$scratch/changed"
[ -s "$scratch/changed" ] && word="not ok" || word=ok
echo "$word 4 - docs/design.md has the choices that corale-plan prints"
sed 's/^/# /' "$scratch/changed"

# What is longer than this nobody reads. Words outside of tables and code; not counted among all pages: installation, what changed, the laboratory.
words() { awk 'FNR == 1 { fenced = 0 } /^```/ { fenced = !fenced; next } !fenced && !/^(\||    )/ { words += NF } END { print words + 0 }' "$@"; }
number=5
at_most() # words, description, pages
{
	most=$1
	description=$2
	shift 2
	count=$(words "$@")
	[ "$count" -le "$most" ] && word="" || word="not "
	echo "${word}ok $number - $description: at most $most words outside of tables and code"
	echo "# $count words"
	number=$((number + 1))
}
cd "$top_srcdir" || exit 1
at_most 2000 README README.md
at_most 6000 docs/design.md docs/design.md
at_most 1500 CHANGELOG CHANGELOG.md
pages=$(find README.md CONTRIBUTING.md docs/*.md examples/*/README.md ! -name install.md 2>/dev/null)
# shellcheck disable=SC2086 # names without spaces
at_most 28000 "all pages" $pages
echo "1..$((number - 1))"
