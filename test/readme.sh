#!/bin/sh
# docs/settings.md has the library's own table of settings, and links in the documentation lead to files that exist. TAP.
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

# Prints the relative links of page $1 that lead nowhere. The release lacks docs/plots: its images are left out.
broken_links()
{
	grep -o '](\([^)]*\))' "$1" | sed 's/^](//; s/)$//; s/#.*//' | grep -v -e '^$' -e '://' -e '^plots/' | sort -u |
		while read -r target; do
			[ -e "$(dirname "$1")/$target" ] || echo "# $1: $target"
		done
}

for page in "$top_srcdir"/README.md "$top_srcdir"/docs/*.md; do
	broken_links "$page"
done >"$scratch/broken"
if [ -s "$scratch/broken" ]; then
	echo "not ok 2 - links lead to files"
	cat "$scratch/broken"
else
	echo "ok 2 - links lead to files"
fi
echo "1..2"
