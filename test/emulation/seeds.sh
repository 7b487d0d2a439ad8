#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The programs of test/emulation with seeds that have failed, and with one that is drawn each time: TAP, a run a line, with its seed.
# TEST_SEED in the environment: that one instead.
programs=${top_builddir:-.}/test/emulation
fresh=${TEST_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
number=0 failed=0

# run PROGRAM SEED [WORD]
run()
{
	number=$((number + 1))
	said=$(timeout -k 10 200 "$programs/$1" "$2" "$3" 2>&1)
	status=$?
	if [ $status = 0 ] && echo "$said" | grep -q '^ok'; then
		echo "ok $number - $1 $2 $3"
		return
	fi
	failed=1
	echo "not ok $number - $1 $2 $3"
	echo "# status $status; again: ${TEST_THIN:+TEST_THIN=$TEST_THIN TEST_SEED=$2 }test/emulation/$1 $2 '$3'"
	echo "$said" | sed '/^ok/d; s/^\(# \)*/# /'
}

# Slot 2^32 of a ring, of which lines were never stored.
run emulation_test 123 "a pair beyond"
run emulation_test 128 "a pair beyond"
run emulation_test 6007 "a pair beyond"

# A seed beyond what an int holds.
run emulation_test 67600122 edges

export TEST_THIN=7 TEST_SEED="$fresh"
for program in copies_test emulation_test packets_test; do
	run $program "$fresh"
done
echo "1..$number"
exit $failed
