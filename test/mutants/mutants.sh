#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Mutation test of the host engine, of what finds mismatches, of windows, of the bootstrap, and of the NCCL door: each mutant is one small change that the
# unit tests must notice. Prints one line a mutant: killed and by what, or SURVIVED. Exit status 1 if one survived or
# cannot be made any more, 2 if a test fails without any. Needs cc, cmocka and some minutes; no UCX, CUDA, MPI or make.
# Usage: test/mutants/mutants.sh [WORD]   only the mutants whose name or file holds WORD
only=$1
CC=${CC:-cc}
. "$(dirname "$0")/mutate.sh"
for name in $(env | sed -n 's/^\(CORALE_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done

# ---- Building: everything once, then one file a mutant

# compile SOURCE OBJECT [FILE]: FILE is where SOURCE belongs
compile()
{
	$CC -std=gnu11 -O1 -pthread -ffp-contract=off -fopenmp-simd -I"$work/include" -I"$work/lib" -I"$work" \
		-iquote "$work/$(dirname "${3:-.}")" -c "$1" -o "$2"
}

# link_test NAME OBJECT...: objects come before the library, so that a mutant's replaces the library's
link_test()
{
	program=$1
	shift
	parts=
	[ "$program" != creation_faults_test ] && [ "$program" != gpu_refused_test ] || parts="$work/test/helpers/forked.o $work/test/helpers/fake_engine.o $work/test/helpers/fake_gpu_memory.o"
	# shellcheck disable=SC2086
	$CC -pthread -o "$work/$program" "$work"/test/*/"$program.o" "$@" $parts "$work/test/helpers/thread_rows.o" "$work/test.a" "$work/core.a" -lcmocka -lm
}

build_all()
{
	cp -r "$here/lib" "$here/kernels" "$here/include" "$here/nccl_glue" "$here/examples" "$here/test" "$work" || exit 2
	rm -f "$work"/nccl_glue/device_cuda.c "$work"/lib/net/ucx/*ucx*.c "$work"/lib/net/adapters_hwloc.c "$work"/lib/net/*_module.c "$work"/lib/net/ucx/*_module.c "$work"/lib/cuda/*cuda*.c "$work"/lib/cuda/exporter*.c "$work"/lib/cuda/trace_nvtx.c
	for source in $(find "$work/lib" "$work/nccl_glue" "$work/examples/plans" -name '*.c') "$work"/test/check/*.c "$work"/test/helpers/thread_rows.c "$work"/test/helpers/transport_inproc.c "$work"/test/helpers/any_call.c "$work"/test/helpers/matrix.c "$work"/test/nccl/nccl_world.c "$work"/test/helpers/reference*.c "$work"/test/helpers/team.c "$work"/test/helpers/team_main.c "$work"/test/helpers/unit*.c \
		"$work"/test/nccl/nccl_world_test.c "$work"/test/nccl/nccl_life_test.c "$work"/test/call/waves_test.c "$work"/test/health/failure_test.c \
		"$work"/test/plan/planner_test.c "$work"/test/helpers/plan_cases.c "$work"/test/helpers/thin.c "$work"/test/plan/net_rates_test.c "$work"/test/plan/tuning_test.c "$work"/test/host/host_fast_test.c "$work"/test/health/peer_data_test.c \
		"$work"/test/boot/boot_test.c "$work"/test/comm/creation_faults_test.c "$work"/test/helpers/forked.c "$work"/test/helpers/fake_engine.c "$work"/test/helpers/fake_gpu_memory.c "$work"/test/host/engine_test.c "$work"/test/call/group_test.c "$work"/test/call/matrix_test.c "$work"/test/health/mismatch_test.c "$work"/test/call/ordered_test.c "$work"/test/call/refused_test.c "$work"/test/comm/gpu_refused_test.c; do
		compile "$source" "${source%.c}.o" || die "$source does not compile"
	done
	ar rcs "$work/core.a" $(find "$work/lib" "$work/nccl_glue" "$work/examples/plans" -name '*.o')
	ar rcs "$work/test.a" "$work"/test/check/*.o "$work"/test/helpers/transport_inproc.o "$work"/test/helpers/any_call.o "$work"/test/helpers/matrix.o "$work"/test/helpers/thin.o "$work"/test/helpers/plan_cases.o "$work"/test/helpers/reference*.o "$work"/test/helpers/team.o "$work"/test/helpers/team_main.o "$work"/test/helpers/unit*.o "$work"/test/nccl/nccl_world.o
}

# ---- Tests: TEST/CASE[/SETTINGS], a case by the name in its test's table, or by its TEAM_TEST

# case_argument TEST CASE: what the test takes as its argument: the number of the case, or in boot_test the name
case_argument()
{
	if [ "$1" = boot_test ]; then
		grep -qE "^(CASE|FORKS)\([a-z0-9_]*, \"$2\"\)" "$here/test/boot/boot_test.c" && echo "$2"
		return
	fi
	sed -nE 's/^(	\{|TEAM_TEST\([a-z0-9_]*,) "/"/p' "$here"/test/*/"$1.c" | awk -v name="$2" 'index($0, "\"" name "\"") == 1 { print NR - 1 }'
}

# case_settings TEST CASE: those in the table of matrix_test
case_settings()
{
	[ "$1" = matrix_test ] || return
	small=$(sed -n 's/^#define SMALL "\(.*\)"/\1/p' "$here/test/call/matrix_test.c")
	grep "^	{ \"$2\"" "$here/test/call/matrix_test.c" |
		sed "s/^	{ \"[^\"]*\", //; s/^SMALL \"/\"$small/; s/^\"\([^\"]*\)\".*/\1/"
}

# "all" is a test without such a table, whole.
# run_case PLACE: status 0 if it passes; $work/out has its output
run_case()
{
	test=${1%%/*} rest=${1#*/}
	case_name=${rest%%/*}
	case $rest in */*) settings=${rest#*/} ;; *) settings= ;; esac
	argument=$(case_argument "$test" "$case_name")
	[ "$case_name" = all ] || [ -n "$argument" ] || die "$test has no case \"$case_name\""
	# shellcheck disable=SC2046,SC2086
	env CORALE_TIMEOUT=5 CORALE_DEBUG=none $(case_settings "$test" "$case_name") $settings \
		timeout 60 "$work/$test" ${argument:+"$argument"} >"$work/out" 2>&1
}

# ---- Mutants

# Why a test was red, from its first complaint.
reason()
{
	printf '%s | ' "$place"
	line=$(sed -n '/^# rank/{s/^# rank [0-9]* of [0-9]*: //;p;q;}' "$work/out" | cut -c 1-110)
	if [ $status = 124 ]; then
		echo "hangs"
	elif [ $status -gt 128 ]; then
		echo "signal $((status - 128))"
	else
		echo "${line:-exit status $status}"
	fi
}

# A race needs luck: three rounds.
hunt()
{
	for round in 1 2 3; do
		for place in "$@"; do
			run_case "$place"
			status=$?
			[ $status = 0 ] || return 0
		done
	done
	return 1
}

# build MUTATED FILE TEST...
build()
{
	compile "$1" "$work/mutant.o" "$2" || return 1
	shift 2
	for place in "$@"; do
		echo "${place%%/*}"
	done | sort -u >"$work/tests"
	while read -r test; do
		link_test "$test" "$work/mutant.o" || die "$test does not link"
	done <"$work/tests"
}

build_all
# Without a mutant all is green.
clean()
{
	case "$1 $2" in *"$only"*) ;; *) return ;; esac
	shift 3
	for place in "$@"; do
		echo "$place"
	done >>"$work/places"
}
eval "$(sed 's/^mutant /clean /' "$work/test/mutants/mutants.table")"
for test in ordered_test refused_test gpu_refused_test creation_faults_test nccl_world_test nccl_life_test waves_test failure_test boot_test engine_test group_test matrix_test mismatch_test planner_test net_rates_test tuning_test host_fast_test peer_data_test; do
	link_test $test || die "$test does not link"
done
sort -u "$work/places" >"$work/sorted"
while read -r place; do
	run_case "$place" </dev/null || die "$place fails without a mutant: $(cat "$work/out")"
done <"$work/sorted"

. "$work/test/mutants/mutants.table"
mutants_end
