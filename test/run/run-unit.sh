#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs one unit test under a deadline and, where the kernel allows it, without address randomisation: the
# sanitizers of older compilers fail or loop with the many random bits of newer kernels.
# Where long lists are thinned or drawn from (test/helpers/thin.h) it says by what, and draws the seed unless TEST_SEED, or TEST_DRAW, has one.
drawn() { od -An -N4 -tu4 /dev/urandom | tr -d ' '; }
if [ -n "${TEST_THIN:-}" ]; then
	export TEST_SEED="${TEST_SEED:-$(drawn)}"
	echo "# TEST_THIN=$TEST_THIN TEST_SEED=$TEST_SEED"
else
	export TEST_DRAW="${TEST_DRAW:-$(drawn)}"
	echo "# TEST_DRAW=$TEST_DRAW"
fi
if setarch "$(uname -m)" -R true 2>/dev/null; then
	exec timeout -k 10 "${TEST_TIMEOUT:-600}" setarch "$(uname -m)" -R "$@"
fi
exec timeout -k 10 "${TEST_TIMEOUT:-600}" "$@"
