# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of mutants: each is one small change of a file that tests must notice. Prints a line a mutant: killed and by what, or SURVIVED.
# The script defines: build MUTATED FILE [TEST...], which compiles MUTATED in the place of FILE; hunt [TEST...], which succeeds where a test is red;
# reason, which prints why it is. $only is a word of the names and files of the mutants that are wanted.
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
survived=0 broken=0 killed=0

die()
{
	echo "$(basename "$0"): $*" >&2
	exit 2
}

# mutant NAME FILE SED [TEST...]
mutant()
{
	title=$1 file=$2 change=$3
	shift 3
	case "$title $file" in *"$only"*) ;; *) return ;; esac
	sed "$change" "$here/$file" >"$work/mutant.c"
	if cmp -s "$here/$file" "$work/mutant.c" || ! build "$work/mutant.c" "$file" "$@" 2>"$work/out"; then
		broken=$((broken + 1))
		echo "CANNOT BE MADE: $file: $title"
	elif hunt "$@"; then
		killed=$((killed + 1))
		echo "killed: $file: $title | $(reason)"
	else
		survived=$((survived + 1))
		echo "SURVIVED: $file: $title"
	fi
}

# The status of the script: 1 if a mutant has survived or cannot be made any more.
mutants_end()
{
	echo "$killed killed, $survived survived, $broken cannot be made"
	[ $((killed + survived + broken)) -gt 0 ] || die "no mutant is named like '$only'"
	[ $survived = 0 ] && [ $broken = 0 ]
}
