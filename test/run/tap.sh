# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests whose programs print into $scratch/output: that folder, which goes at the end, and TAP lines.
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
number=0

tell() # DESCRIPTION, after a command
{
	[ $? = 0 ] && word=ok || word="not ok"
	number=$((number + 1))
	echo "$word $number - $1"
	[ "$word" = ok ] || sed 's/^/# /' "$scratch/output"
}
