# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests that are scripts: $scratch, a folder that goes at the end, and TAP lines. Programs print into $scratch/output, or into $reasons.
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
# Launchers of tests that run at one time would all make and remove /tmp/ompi.HOST.UID: one that finds it removed, then made, ends with "mkdir: File exists".
export OMPI_MCA_orte_tmpdir_base="$scratch" PRTE_MCA_prte_tmpdir_base="$scratch"
number=0 reasons=

# result STATUS DESCRIPTION [FILE]: a case, and where it failed the beginning and the end of the file with the reasons ($reasons where none is named).
result()
{
	[ "$1" = 0 ] && word=ok || word="not ok"
	number=$((number + 1))
	echo "$word $number - $2"
	set -- "${3:-$reasons}"
	[ "$word" = ok ] || [ -z "$1" ] || awk '{ line[NR] = $0 } END { for (i = 1; i <= NR; i++) if (i <= 30 || i > NR - 30) print "# " line[i] }' "$1"
}
tell() { result $? "$1" "$scratch/output"; } # DESCRIPTION, after a command
skip() # DESCRIPTION REASON
{
	number=$((number + 1))
	echo "ok $number - $1 # SKIP $2"
}
