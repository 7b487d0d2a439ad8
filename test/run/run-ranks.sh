#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs one multi-rank test under mpirun, once per shape, and joins the TAP of the launches into one plan.
# A shape is RANKS:NODE_SIZE (0: the real nodes). The program's source names its own in a comment line
# "shapes: 4:2 3:0"; TEST_SHAPES overrides. Rank 0 prints the TAP; TEST_RANKS tells the program how
# many ranks it must see. Launcher options go through the environment, so that one line suits Open MPI 4, 5 and MPICH.
# Where it draws from long lists (test/helpers/thin.h) it says by what, and draws that unless TEST_DRAW has it.
export TEST_DRAW="${TEST_DRAW:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"
echo "# TEST_DRAW=$TEST_DRAW"
program=$1
source=$(find "$top_srcdir/test" -name "$(basename "${program%.mpi}").c")
shapes=${TEST_SHAPES:-$(sed -n 's/.*shapes: *\([0-9: ]*[0-9]\).*/\1/p' "$source" | head -n 1)}
. "$top_srcdir/test/run/launcher-env.sh"
. "$top_srcdir/test/run/tap.sh"

status=0
for shape in ${shapes:-4:2}; do
	ranks=${shape%%:*}
	TEST_RANKS=$ranks CORALE_NODE_SIZE=${shape#*:} timeout -k 10 "${TEST_TIMEOUT:-300}" \
		"$MPIRUN" -n "$ranks" "$program" </dev/null >"$scratch/tap"
	code=$?
	plans=$(grep -c '^1\.\.[0-9]' "$scratch/tap")
	planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$scratch/tap" | head -n 1)
	cases=$(grep -cE '^(not )?ok\b' "$scratch/tap")
	while IFS= read -r line; do
		case $line in
		"1..0 # SKIP"*) word=ok line="ok 0 - all of it #${line#*#}" ;;
		1..*) continue ;;
		ok*) word=ok ;;
		"not ok"*) word="not ok" ;;
		*) echo "# $line"; continue ;;
		esac
		number=$((number + 1))
		echo "$word $number - [$shape] $(sed -E 's/^(not )?ok( +[0-9]+)?( +-)? *//' <<<"$line")"
	done <"$scratch/tap"
	number=$((number + 1))
	if [ $code -ne 0 ] || [ "$plans" != 1 ] || [ "$planned" != "$cases" ]; then
		# Its status says that cases have failed, which say themselves why.
		[ $code = 1 ] && [ "$plans" = 1 ] && [ "$planned" = "$cases" ] && grep -q '^# a limit of time alone$' "$scratch/tap" && code=124
		[ $code = 124 ] && echo "# a limit of time alone"
		echo "not ok $number - [$shape] launch: exit status $code, $plans plans of ${planned:-no} cases, $cases seen"
		status=1
	else
		echo "ok $number - [$shape] launch of $ranks ranks"
	fi
done
echo "1..$number"
exit $status
