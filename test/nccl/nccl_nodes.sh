#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# NCCL's interface over nodes, as CORALE_NODE_SIZE divides this host: UCX is a module, opened only where ranks are on several nodes; what is said where the
# module or UCX is missing, broken or of another build; where UCX is found; all of nccl_world_test, nccl_life_test and nccl_creation_test. TAP.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"
. "${top_srcdir:-$(dirname "$0")/../..}/test/nccl/nccl_ranks.sh"

# ranks [NAME=VALUE]...: two ranks with these variables.
ranks()
{
	local rank
	fresh
	for rank in 0 1; do run $rank 2 env "$@"; done
	await
}
works() # whether both ranks have their sum
{
	[ "$(grep -c ' code 0 ' "$scratch/all")" = 2 ]
}
# refused DESCRIPTION PATTERN...: no rank has a communicator, and each pattern (grep -E) is among what the ranks say last.
refused()
{
	local description=$1 pattern wrong=0
	shift
	[ "$(grep -c '^rank . code [1-9]' "$scratch/all")" = 2 ] || wrong=1
	for pattern in "$@"; do
		grep '^rank . code ' "$scratch/all" | grep -qE "$pattern" || wrong=1
	done
	result $wrong "$description" "$scratch/all"
}
# folder NAME: a copy of the modules.
folder()
{
	mkdir -p "$scratch/$1"
	cp "$modules"/corale_*.so "$scratch/$1/"
}

ranks CORALE_NODE_SIZE=0
works && ! grep -q 'corale_ucx\.so' "$scratch/all"
result $? "ranks of one node open no module" "$scratch/all"
ranks CORALE_NODE_SIZE=1
works && [ "$(grep -c 'corale_ucx.so is loaded with ' "$scratch/all")" = 2 ]
result $? "ranks of two nodes open the module" "$scratch/all"

# ---- The module is missing, is none, is of another build

mkdir "$scratch/empty"
ranks CORALE_NODE_SIZE=1 CORALE_MODULES="$scratch/empty"
refused "without the module" "need UCX: corale_ucx.so can't be loaded .*No such file.*CORALE_MODULES"
ranks CORALE_NODE_SIZE=0 CORALE_MODULES="$scratch/empty"
works
result $? "without the module on one node" "$scratch/all"
folder broken
echo text >"$scratch/broken/corale_ucx.so"
ranks CORALE_NODE_SIZE=1 CORALE_MODULES="$scratch/broken"
refused "a file that is no library" "corale_ucx.so can't be loaded"
# compiled NAME TEXT: a folder whose corale_ucx.so is of this source.
compiled()
{
	mkdir "$scratch/$1"
	echo "$2" >"$scratch/module.c"
	${CC:-cc} -shared -fPIC -o "$scratch/$1/corale_ucx.so" "$scratch/module.c"
}
if compiled foreign 'int other;'; then
	ranks CORALE_NODE_SIZE=1 CORALE_MODULES="$scratch/foreign"
	refused "another library" "it has no corale_module"
	compiled older '#include <stddef.h>
		struct { size_t bytes[8]; int version; void *more[3]; } corale_module = { { 1, 2 }, 1, { 0 } };'
	ranks CORALE_NODE_SIZE=1 CORALE_MODULES="$scratch/older"
	refused "a module of another build" "is of another build of Corale than this library"
fi

# ---- Where UCX is

ucp=$(ldd "$modules/corale_ucx.so" | sed -n 's/.*=> \(.*libucp\.so\.0\) .*/\1/p')
ranks CORALE_NODE_SIZE=1 CORALE_UCX_LIBRARY="$scratch/empty"
refused "CORALE_UCX_LIBRARY of a folder without UCX" "CORALE_UCX_LIBRARY=.*no file .*/libucp.so.0; expected the path of a libucp.so.0"
# A copy of UCX. UCX finds its modules beside its own file.
copy_ucx() # folder
{
	mkdir -p "$1"
	cp "${ucp%/*}"/libuc[pst].so.0 "${ucp%/*}"/libucm.so.0 "$1/"
	[ ! -d "${ucp%/*}/ucx" ] || cp -r "${ucp%/*}/ucx" "$1/"
}
# used DESCRIPTION FOLDER: both ranks work, with the UCX of that folder.
used()
{
	works && [ "$(grep -cF "is loaded with $2/libucp.so.0" "$scratch/all")" = 2 ]
	result $? "$1" "$scratch/all"
}
copy_ucx "$scratch/ucx/lib"
ranks CORALE_NODE_SIZE=1 CORALE_UCX_LIBRARY="$scratch/ucx/lib/libucp.so.0"
used "the file of CORALE_UCX_LIBRARY" "$scratch/ucx/lib"
ranks CORALE_NODE_SIZE=1 CORALE_UCX_LIBRARY="$scratch/ucx/lib"
used "the folder of CORALE_UCX_LIBRARY" "$scratch/ucx/lib"
ranks CORALE_NODE_SIZE=1 HPCX_UCX_DIR="$scratch/ucx"
used "HPC-X" "$scratch/ucx/lib"
ranks CORALE_NODE_SIZE=1 HPCX_UCX_DIR="$scratch/ucx" LD_PRELOAD="$ucp"
used "a UCX that the process has already" "${ucp%/*}"
if echo 'int in_packages;' >"$scratch/package.c" && mkdir -p "$scratch/site-packages/torch" &&
	${CC:-cc} -shared -fPIC -o "$scratch/site-packages/torch/libtorch.so" "$scratch/package.c" 2>/dev/null; then
	copy_ucx "$scratch/site-packages/libucx/lib"
	ranks CORALE_NODE_SIZE=1 LD_PRELOAD="$scratch/site-packages/torch/libtorch.so"
	used "the package libucx beside a library of Python's" "$scratch/site-packages/libucx/lib"
	# As the package of PyPI is: built without verbs. The adapter is played by test/fake_verbs.
	rm -f "$scratch"/site-packages/libucx/lib/ucx/libuct_ib*
	ranks CORALE_NODE_SIZE=1 LD_PRELOAD="$scratch/site-packages/torch/libtorch.so"
	used "a UCX without verbs where there is no adapter" "$scratch/site-packages/libucx/lib"
	adapter=$build/test/fake_verbs/.libs/libfake_verbs.so
	if [ -f "$adapter" ] && [ -f "${ucp%/*}/ucx/libuct_ib.so.0" ]; then
		ranks CORALE_NODE_SIZE=1 UCX_TLS=tcp,self LD_PRELOAD="$adapter:$scratch/site-packages/torch/libtorch.so"
		works && [ "$(grep -c "is loaded with ${ucp%/*}/libucp.so.0 ($scratch/site-packages/libucx/lib comes first, but was built without verbs" "$scratch/all")" = 2 ]
		result $? "the loader's, which has verbs, where there is an adapter" "$scratch/all"
		ranks CORALE_NODE_SIZE=1 UCX_TLS=tcp,self LD_PRELOAD="$adapter:$scratch/site-packages/torch/libtorch.so" HPCX_UCX_DIR="$scratch/ucx"
		used "the first in order that has verbs" "$scratch/ucx/lib"
		text=$(LD_PRELOAD=$adapter UCX_TLS=tcp,self "$build/nccl_glue/corale-nodes" "$scratch/site-packages/libucx/lib")
		echo "$text" >"$scratch/reasons"
		[ "$(echo "$text" | grep -c "^UCX [0-9.]*, ${ucp%/*}/libucp.so.0 ($scratch/site-packages/libucx/lib comes first, but was built without verbs")" = 1 ]
		result $? "corale-run --check says which, and why" "$scratch/reasons"
	fi
fi

# ---- Programs

# The cases of a program, each a line of its own here.
whole() # node size, how messages travel, program
{
	CORALE_DEBUG=warn CORALE_NODE_SIZE=$1 CORALE_UCX_MESSAGE=$2 timeout -k 5 400 "$build/test/nccl/$3" >"$scratch/whole" 2>&1 </dev/null
	local status=$?
	late=
	[ $status != 124 ] || late=yes
	grep -E '^# rank|FAILED|ERROR|ended' "$scratch/whole" >"$scratch/reasons"
	result $status "$3 on nodes of $1, messages by $2" "$scratch/reasons"
}
whole 1 put nccl_world_test
whole 5 am nccl_world_test
whole 1 am nccl_life_test
whole 3 auto nccl_life_test
whole 1 am nccl_creation_test
whole 2 auto nccl_creation_test
echo "1..$number"
