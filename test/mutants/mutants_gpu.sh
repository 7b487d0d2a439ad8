#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Mutation test of slots in a GPU's memory over UCX: each mutant is one small change that test/net/gpu_order_test must notice over the adapter of
# test/fake_verbs, which it runs under. Prints one line a mutant: killed, or SURVIVED. Exit status 1 if one survived or cannot be made any more, 2 if the
# test fails without any. In a build directory after `make check TESTS=`, with UCX and libfake_verbs.so; not a part of make check.
only=$1
. "$(dirname "$0")/mutate.sh"
export top_builddir="${top_builddir:-$PWD}" top_srcdir="$here"
CC=${CC:-cc}
cd "$top_builddir" || exit 2

[ -f .libs/libcore.a ] && [ -x test/net/gpu_order_test ] || die "there is no build here with gpu_order_test: make check TESTS="
libs=$(printf 'include Makefile\nprint-libs:\n\t@echo $(CORE_LIBS) $(CMOCKA_LIBS) $(LIBS)\n' | make -s -f - print-libs)
objects=$(echo test/net/gpu_order_test-*.o test/helpers/net_gpu_order_test-*.o)

# build MUTATED: the test with that in the place of the file of lib/net/ucx that defines the same
build()
{
	$CC -std=gnu11 -O1 -pthread -I"$top_builddir" -I"$here/include" -I"$here/lib" -iquote "$here/lib/net/ucx" -c "$1" -o "$work/mutant.o" || return 1
	# shellcheck disable=SC2086
	$CC -pthread -o "$work/test" $objects "$work/mutant.o" .libs/libunit.a .libs/libcore.a .libs/libcommon.a $libs
}

run_test()
{
	UCX_LOG_LEVEL=fatal timeout 120 sh "$here/test/fake_verbs/fake_verbs.sh" run "$work/test" >"$work/out" 2>&1 </dev/null
}

hunt() { ! run_test; }
reason() { sed -n 's/^.*FAILED  *\] *//p' "$work/out" | grep -v listed | sort -u | tr '\n' ' '; }

build "$here/lib/net/ucx/ucx_arrive.c" || die "gpu_order_test cannot be linked"
run_test || die "gpu_order_test fails without a mutant: $(tail -n 20 "$work/out")"

mutant "a message has arrived without a read-back" lib/net/ucx/ucx_arrive.c \
	's/if (!bytes || (bytes > LINK_INLINE_BYTES && !slab->reads_back))/if (!bytes || bytes > LINK_INLINE_BYTES)/'
mutant "the read-back reads another slot" lib/net/ucx/ucx_arrive.c \
	's/l->in.at + i \* l->base.slot_bytes + bytes - n/l->in.at + (i ^ 1) * l->base.slot_bytes + bytes - n/'
mutant "the notice goes before its data" lib/net/ucx/ucx_link_post.c \
	's/^	take(out, ucp_put_nbx(/	send_am(out, UCP_AM_SEND_FLAG_EAGER, 0);\n&/; s/^	if (ordered) {$/	if (1) {\n		return;/'
mutant "the processor copies few bytes into the slot" lib/net/ucx/ucx_arrive.c \
	's/memcpy(l->inline_in ? inline_of(l, in) : l->base.in\[in - l->ins\].data, data, bytes);/memcpy(l->in.at + (size_t)(in - l->ins) * l->base.slot_bytes, data, bytes);/'
# UCX's protocols before 1.16 know no other way to keep the processor off small puts.
if [ "$(pkg-config --modversion ucx | cut -d. -f2)" -lt 16 ]; then
	mutant "the processor may read small puts" lib/net/ucx/ucx_context.c 's/{ "ZCOPY_THRESH", "0", 0, 15 }/{ "ZCOPY_THRESH", "16k", 0, 15 }/'
else
	mutant "the processor may read small puts" lib/net/ucx/ucx_link_post.c 's/param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;//'
fi
mutant "relaxed ordering is left to UCX" lib/net/ucx/ucx_context.c \
	's/{ "PCI_RELAXED_ORDERING", "n", 0, 16 }/{ "PCI_RELAXED_ORDERING", "y", 0, 16 }/; s/{ "IB_PCI_RELAXED_ORDERING", "n"/{ "IB_PCI_RELAXED_ORDERING", "y"/'
mutants_end
