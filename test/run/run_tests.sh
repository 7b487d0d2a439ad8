#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test/run/run-tests with programs that are made up: what fails by a limit of time alone is run again, once, at the end; a wrong result, a signal or a
# sanitizer's report is not. TAP.
top=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
. "$top/test/run/tap.sh"
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL TEST_TIMEOUT
build=$scratch/build
mkdir -p "$build/test"
cat >"$build/Makefile" <<END
TEST_LOGS = \$(TESTS:=.log)
check:
	rm -f \$(TEST_LOGS) \$(TEST_LOGS:.log=.trs)
	\$(MAKE) -k \$(TEST_LOGS)
	! grep -E '^:test-result: (FAIL|ERROR)' \$(TEST_LOGS:.log=.trs)
%.log:
	TEST_TIMEOUT=1 sh $top/build-aux/tap-driver.sh --test-name \$* --log-file \$@ --trs-file \$*.trs --color-tests no \\
		--enable-hard-errors yes --expect-failure no -- sh $top/test/run/run-unit.sh sh ./\$*
END

# program NAME, with its text: \$run is 1, then 2
program()
{
	{ printf 'echo >>%s/runs.%s\nrun=$(wc -l <%s/runs.%s)\n' "$scratch" "$1" "$scratch" "$1"; cat; } >"$build/test/$1"
}
# again RUNS STATUS COUNTS NAME DESCRIPTION: how often a program has run, and what run-tests says of it
again()
{
	"$top/test/run/run-tests" "$build" -j2 "TESTS=test/right test/$4" >"$scratch/output" 2>&1
	status=$?
	[ "$(wc -l <"$scratch/runs.$4")" -eq "$1" ] && [ $status = "$2" ] && [ "$(tail -n 1 "$scratch/output")" = "$3" ]
	tell "$5"
}
slow() # NAME TEXT DESCRIPTION: of the last output
{
	grep -qx "  slow on this machine: test/$1: $2" "$scratch/output"
	tell "$3"
}

program right <<'END'
echo "ok 1 - right"; echo 1..1
END
program late <<'END'
echo 1..3; echo "ok 1 - one"
[ $run = 1 ] && echo "# it took 9 s" && echo "# a limit of time alone" && printf "not "
echo "ok 2 - two"; echo "ok 3 - three"; [ $run = 2 ]
END
again 2 0 "4 passed, 0 failed, 0 skipped" late "a limit of time that is met when the program runs alone"
slow late two "it is named as slow"
program hangs <<'END'
[ $run = 1 ] && sleep 20
echo "ok 1 - hangs"; echo 1..1
END
again 2 0 "2 passed, 0 failed, 0 skipped" hangs "a program that ran past its own limit"
slow hangs "all of it" "and so is this"
program twice <<'END'
echo "# a limit of time alone"; echo "not ok 1 - late"; echo 1..1; exit 1
END
again 2 1 "1 passed, 2 failed, 0 skipped" twice "late twice is a failure"
! grep -q 'slow on' "$scratch/output"
tell "and is not named as slow"
program wrong_then <<'END'
if [ $run = 1 ]; then echo "# a limit of time alone"; else echo "# wrong sum"; fi; echo "not ok 1 - late"; echo 1..1
END
again 2 1 "1 passed, 1 failed, 0 skipped" wrong_then "late, then wrong, is a failure"

# never DESCRIPTION COUNTS, with a program's text: it is run once
count=0
never()
{
	count=$((count + 1))
	program never$count
	again 1 1 "$2" never$count "$1"
}
never "a wrong result is not run again" "1 passed, 1 failed, 0 skipped" <<'END'
echo "not ok 1 - wrong"; echo 1..1
END
never "nor a wrong result beside a limit of time" "1 passed, 2 failed, 0 skipped" <<'END'
echo "# a limit of time alone"; echo "not ok 1 - late"; echo "not ok 2 - wrong"; echo 1..2
END
never "nor a case with both" "1 passed, 1 failed, 0 skipped" <<'END'
echo "# a limit of time alone"; echo "# more than a limit of time"; echo "not ok 1 - both"; echo 1..1
END
never "nor a signal" "2 passed, 2 failed, 0 skipped" <<'END'
echo "ok 1 - one"; echo "# a limit of time alone"; echo "not ok 2 - late"; echo 1..2; kill -SEGV $$
END
never "nor a sanitizer's report" "1 passed, 1 failed, 0 skipped" <<'END'
echo "WARNING: ThreadSanitizer: data race" >&2; echo "# a limit of time alone"; echo "not ok 1 - late"; echo 1..1
END
never "nor a wrong result before a program ran past its limit" "1 passed, 3 failed, 0 skipped" <<'END'
echo "not ok 1 - wrong"; sleep 20
END
echo "1..$number"
