#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# nccl_glue/nccl.h and nccl_device_host.h against the table of what NCCL promises to compiled programs, as C and as C++, with and without CUDA's headers; and
# what the library exports, where this build has one. TAP.
cd "${top_srcdir:-$(dirname "$0")/../..}" && top_srcdir=$PWD || exit 1
cc=${CC:-cc}
header=$PWD/nccl_glue/nccl.h
refused=$PWD/nccl_glue/nccl_device_host.h # which includes the other
table=$PWD/test/nccl/nccl_abi.table
. "$top_srcdir/test/run/tap.sh"

# A C program that does not compile if a line of the table is not true of the header.
assertions()
{
	echo "#include \"$refused\""
	echo "#define EQUAL(line, a, b) _Static_assert((long long)(a) == (b), line)"
	echo "#define TYPE(line, name, type) _Static_assert(__builtin_types_compatible_p(__typeof__(name), type), line)"
	awk '{
		line = "\"" $0 "\""
		type = $0
		sub(/^function [^ ]+ [^ ]+ /, "", type)
		name = type
		sub(/ \(/, " (*)(", name)
	}
	$1 == "size" { print "EQUAL(" line ", sizeof(" $2 "), " $3 ");" }
	$1 == "field" {
		print "EQUAL(" line ", offsetof(" $2 ", " $3 "), " $4 ");"
		print "EQUAL(" line ", sizeof(((" $2 " *)NULL)->" $3 "), " $5 ");"
	}
	$1 == "value" { print "EQUAL(" line ", " $2 ", " $3 ");" }
	$1 == "function" && type != "-" {
		print "TYPE(" line ", &" $2 ", " name ");"
		print "TYPE(" line ", &p" $2 ", " name ");"
	}
	$1 == "function" && type == "-" { print "TYPE(" line ", " $2 ", __typeof__(p" $2 "));" }' "$table"
}

# The functions that the header declares, and those that the table has.
declared()
{
	$cc -DCORALE_NCCL_NO_CUDA -E -P "$refused" | grep -oE '\bp?nccl[A-Z][A-Za-z0-9]* ?\(' | tr -d ' (' | sort -u
}
tabled()
{
	awk '$1 == "function" { print $2; print "p" $2 }' "$table" | sort -u
}
documented() # by the table of functions
{
	sed -n '/^## Functions/,/^## Configuration/s/^| \(nccl[^|]*\) |.*/\1/p' docs/nccl.md | tr -d ' ' | tr ',' '\n' | sort
}
exported() # library
{
	nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $3); print $2, $3 }' | sort
}
to_be_exported()
{
	awk '$1 == "function" { print "W " $2; print "T p" $2 } $1 == "lone" { print "T " $2 }' "$table" | sort
}

# CUDA's headers as far as they meet ours: opaque types under the same names.
fake_cuda()
{
	mkdir "$scratch/cuda"
	for name in cuda_fp16 cuda_bf16 cuda_fp8; do
		echo "#define HAS_$name 1" >"$scratch/cuda/$name.h"
	done
	cat >"$scratch/cuda/cuda_runtime.h" <<-'EOF'
	#ifndef CUDA_RUNTIME
	#define CUDA_RUNTIME
	#define CUDART_VERSION 13000
	typedef struct CUstream_st *cudaStream_t;
	typedef struct CUevent_st *cudaEvent_t;
	#endif
	EOF
}

# A program of any age: initializers, calls, stream types.
program()
{
	cat <<-'EOF'
	int use(ncclComm_t comm, cudaStream_t stream, cudaEvent_t event, void *buffer);
	int use(ncclComm_t comm, cudaStream_t stream, cudaEvent_t event, void *buffer)
	{
		ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
		ncclCollConfig_t hints = NCCL_COLLCONFIG_INITIALIZER;
		ncclSimInfo_t simulated = NCCL_SIM_INFO_INITIALIZER;
		ncclEncryptionConfig_t encryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
		ncclUniqueId id;
		ncclComm_t all = NCCL_COMM_NULL;
		config.blocking = 0;
		hints.launchCompletionEvent = event;
		if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRankConfig(&all, 2, id, 0, &config) != ncclSuccess)
			return 1;
		if (ncclSetEncryption(&encryption) || ncclGroupStart() || ncclGroupSimulateEnd(&simulated))
			return 2;
		return ncclAllReduceConfig(buffer, buffer, 1, ncclFloat, ncclSum, comm, stream, &hints) != ncclSuccess;
	}
	#if NCCL_VERSION_CODE != NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
	#error "NCCL_VERSION_CODE does not agree with its parts"
	#endif
	EOF
}

# Compiles the program with these lines before it.
compiles() # description, lines, compiler and options
{
	description=$1
	{ printf '%b\n' "$2" && program; } >"$scratch/program.c"
	shift 2
	"$@" -Wall -Wextra -pedantic-errors -Werror -fsyntax-only "$scratch/program.c" 2>"$scratch/why"
	result $? "$description" "$scratch/why"
}
all_ways() # language, compiler and options
{
	language=$1
	shift
	ours="#include \"$header\""
	cuda="#include <cuda_runtime.h>"
	compiles "$language, no CUDA headers" "$ours" "$@" -DCORALE_NCCL_NO_CUDA
	compiles "$language, CUDA's headers found" "$ours\n#ifndef HAS_cuda_bf16\n#error it did not\n#endif" "$@" -isystem "$scratch/cuda"
	compiles "$language, CUDA's headers before" "$cuda\n$ours" "$@" -isystem "$scratch/cuda" -DCORALE_NCCL_NO_CUDA
	compiles "$language, CUDA's headers after" "$ours\n$cuda" "$@" -isystem "$scratch/cuda" -DCORALE_NCCL_NO_CUDA
	compiles "$language, the refused interface" "$ours\n#include \"$refused\"" "$@" -DCORALE_NCCL_NO_CUDA
	compiles "$language, another version" "#define NCCL_VERSION_CODE 22709\n$ours" "$@" -DCORALE_NCCL_NO_CUDA
}

assertions >"$scratch/assertions.c"
if [ "$(uname -m)" = x86_64 ] || [ "$(uname -m)" = aarch64 ]; then
	$cc -std=gnu11 -DCORALE_NCCL_NO_CUDA -fsyntax-only "$scratch/assertions.c" 2>"$scratch/why"
	result $? "sizes, offsets, values and types are NCCL's" "$scratch/why"
else
	skip "sizes, offsets, values and types are NCCL's" "the table is of other machines"
fi
declared >"$scratch/declared"
tabled | diff - "$scratch/declared" >"$scratch/why"
result $? "every function twice, and no other" "$scratch/why"
documented >"$scratch/documented"
awk '$1 == "function" || $1 == "lone" { print $2 }' "$table" | sort | diff - "$scratch/documented" >"$scratch/why"
result $? "docs/nccl.md has each function once" "$scratch/why"

fake_cuda
# shellcheck disable=SC2086 # a compiler may be several words
all_ways C99 $cc -x c -std=c99
if command -v c++ >/dev/null; then
	all_ways C++11 c++ -x c++ -std=c++11 -Wno-missing-field-initializers
else
	skip C++11 "no C++ compiler"
fi

library=$(find "${top_builddir:-.}" -name libnccl.so.2 | head -n 1)
if [ -n "$library" ]; then
	exported "$library" >"$scratch/exported"
	to_be_exported | diff - "$scratch/exported" >"$scratch/why"
	result $? "the library exports what NCCL does, and nothing else" "$scratch/why"
else
	skip "the library exports what NCCL does, and nothing else" "no libnccl.so.2 in this build"
fi
echo "1..$number"
