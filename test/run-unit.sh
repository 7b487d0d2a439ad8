#!/bin/sh
# Runs one unit test under a deadline and, where the kernel allows it, without address randomisation: the
# sanitizers of older compilers fail or loop with the many random bits of newer kernels.
if setarch "$(uname -m)" -R true 2>/dev/null; then
	exec timeout -k 10 "${TEST_TIMEOUT:-600}" setarch "$(uname -m)" -R "$@"
fi
exec timeout -k 10 "${TEST_TIMEOUT:-600}" "$@"
