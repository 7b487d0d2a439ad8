#!/bin/sh
# The README's table of settings is the library's own. TAP.
# To renew it: replace what is between the settings lines of README.md by corale-info --settings-markdown.
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
"$top_builddir/examples/corale-info" --settings-markdown >"$scratch/library"
sed -n '/^<!-- settings:/,/^<!-- end of settings -->/p' "$top_srcdir/README.md" | grep '^|' >"$scratch/readme"
if diff "$scratch/readme" "$scratch/library" >"$scratch/diff"; then
	echo "ok 1 - README.md has the library's settings"
else
	echo "not ok 1 - README.md has the library's settings"
	sed 's/^/# /' "$scratch/diff"
fi
echo "1..1"
