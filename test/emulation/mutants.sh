#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Mutation test of messages between nodes, held streams, wait notes and the order of calls, by the emulator under the thread sanitizer: each mutant of mutants.table is one small change that
# emulation_test must notice. Prints one line a mutant: killed and by what, or SURVIVED. Exit status 1 if one survived or cannot be made
# any more, 2 if a case fails without any. Needs configure, a C++ compiler and a quarter of an hour; no GPU, MPI or UCX.
# Usage: test/emulation/mutants.sh [WORD]   only the mutants whose name or file holds WORD
only=$1
. "$(dirname "$0")/../mutants/mutate.sh"
export TEST_THIN=7 TSAN_OPTIONS=halt_on_error=1

make_test()
{
	make -s -j2 -C "$work/build" test/emulation/emulation_test >"$work/out" 2>&1
}

build_all()
{
	mkdir "$work/source" "$work/build"
	(cd "$here" && tar cf - --exclude=.git --exclude=build .) | tar xf - -C "$work/source" || exit 2
	(cd "$work/build" && "$work/source/configure" --enable-sanitizer=thread --disable-shared --without-mpi --without-ucx \
		--without-hwloc --without-cuda CFLAGS='-O1 -g' CXXFLAGS='-O1 -g') >"$work/out" 2>&1 || die "$(tail -3 "$work/out")"
	make_test || die "$(tail -5 "$work/out")"
}

# run_case NAME SEED: status 0 if it passes; $work/out has its output
run_case()
{
	timeout 300 "$work/build/test/emulation/emulation_test" "$2" "$1" >"$work/out" 2>&1 && grep -q '^ok' "$work/out"
}

# Why a test was red, from its first complaint.
reason()
{
	printf '%s, seed %s | ' "$name" $seed
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

# build MUTATED FILE: with the file of the mutant before as it is
build()
{
	[ -z "$changed" ] || cp "$here/$changed" "$work/source/$changed"
	changed=$2
	cp "$1" "$work/source/$2"
	make_test
}

build_all
run_case "remote: " 1 || die "a case fails without a mutant: $(cat "$work/out")"
. "$here/test/emulation/mutants.table"
mutants_end
