#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Mutation test of messages between nodes, held streams, wait notes and the order of calls, by the emulator under the thread sanitizer: each mutant of mutants.table is one small change that
# emulation_test must notice. Prints one line a mutant: killed and by what, or SURVIVED. Exit status 1 if one survived or cannot be made
# any more, 2 if a case fails without any. Needs configure, a C++ compiler and a quarter of an hour; no GPU, MPI or UCX.
# Usage: test/emulation/mutants.sh [WORD]   only the mutants whose name or file holds WORD
here=$(cd "$(dirname "$0")/../.." && pwd)
only=$1
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
survived=0 broken=0 killed=0
export TEST_THIN=7 TSAN_OPTIONS=halt_on_error=1

die()
{
	echo "mutants: $*" >&2
	exit 2
}

build()
{
	make -s -j2 -C "$work/build" test/emulation/emulation_test >"$work/out" 2>&1
}

build_all()
{
	mkdir "$work/source" "$work/build"
	(cd "$here" && tar cf - --exclude=.git --exclude=build .) | tar xf - -C "$work/source" || exit 2
	(cd "$work/build" && "$work/source/configure" --enable-sanitizer=thread --disable-shared --without-mpi --without-ucx \
		--without-hwloc --without-cuda CFLAGS='-O1 -g' CXXFLAGS='-O1 -g') >"$work/out" 2>&1 || die "$(tail -3 "$work/out")"
	build || die "$(tail -5 "$work/out")"
}

# run_case NAME SEED: status 0 if it passes; $work/out has its output
run_case()
{
	timeout 300 "$work/build/test/emulation/emulation_test" "$2" "$1" >"$work/out" 2>&1 && grep -q '^ok' "$work/out"
}

# Why a test was red, from its first complaint.
reason()
{
	if grep -q 'WARNING: ThreadSanitizer' "$work/out"; then
		sed -n '/^ *#0/{s/^ *#0 \([^ (]*\).*/thread sanitizer: \1/;p;q;}' "$work/out"
	else
		grep -m 1 '^#' "$work/out" | cut -c 1-110
	fi
}

# A race needs luck: three seeds.
hunt()
{
	for seed in 1 2 3; do
		for name in "$@"; do
			run_case "$name" $seed || return 0
		done
	done
	return 1
}

# mutant NAME FILE SED CASE...
mutant()
{
	title=$1 file=$2 change=$3
	shift 3
	case "$title $file" in *"$only"*) ;; *) return ;; esac
	sed "$change" "$here/$file" >"$work/source/$file"
	if cmp -s "$here/$file" "$work/source/$file" || ! build; then
		echo "CANNOT BE MADE: $file: $title"
		broken=$((broken + 1))
	elif hunt "$@"; then
		killed=$((killed + 1))
		echo "killed: $file: $title | $name, seed $seed | $(reason)"
	else
		survived=$((survived + 1))
		echo "SURVIVED: $file: $title"
	fi
	cp "$here/$file" "$work/source/$file"
}

build_all
run_case "remote: " 1 || die "a case fails without a mutant: $(cat "$work/out")"
. "$here/test/emulation/mutants.table"
echo "$killed killed, $survived survived, $broken cannot be made"
[ $((killed + survived + broken)) -gt 0 ] || die "no mutant is named like '$only'"
[ $survived = 0 ] && [ $broken = 0 ]
