#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The compiler makes packed instructions of the sums in lib/reduce/reduce_sum.c at -O2, and no fused multiply-add.
CC=${CC:-cc}
top_srcdir=${top_srcdir:-.}
. "$top_srcdir/test/run/tap.sh"

# expect FUNCTION INSTRUCTION REGISTER: somewhere between FUNCTION's label and its .size line
expect() {
	printf '%s\n' "$assembly" | sed -n "/^$1:/,/\.size[[:space:]]*$1,/p" | grep -Eq "[[:space:]]$2[[:space:]].*%$3"
	result $? "$1 uses $2 of $3"
}

if ! printf '#ifndef __x86_64__\n#error\n#endif\n' | $CC -E - >/dev/null 2>&1; then
	echo "1..0 # SKIP not x86-64"
	exit 0
fi
assembly=$($CC -std=gnu11 -O2 -fopenmp-simd -ffp-contract=off -I"$top_srcdir/include" -I"$top_srcdir/lib" \
	-S -o - "$top_srcdir/lib/reduce/reduce_sum.c")
result $? "lib/reduce/reduce_sum.c compiles"
for type in float32 float16 bfloat16; do
	expect ${type}_baseline addps xmm
	expect ${type}_avx2 vaddps ymm
done
for type in float32 bfloat16; do
	expect ${type}_avx512 vaddps zmm
done
expect float16_avx2 vcvtph2ps ymm
! printf '%s\n' "$assembly" | grep -Eq 'vfn?m(add|sub)'
result $? "no fused multiply-add"
echo "1..$number"
