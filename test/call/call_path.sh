#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How many functions a call enters from the public function to its first look at what its messages have done, and how deep it nests
# them, on hosts, on a GPU and by the doors, held to test/call/call_path.table: more fails, less asks for the table to be written anew. test/call/call_path.c is built here
# with all of the library it needs, without optimization, so that what a compiler inlines counts too. TAP.
# "test/call/call_path.sh print" prints the table, "test/call/call_path.sh list" each function of each call, its depth first.
top=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
. "$top/test/run/tap.sh"
cc=${CC:-cc}
table=$top/test/call/call_path.table
for name in $(env | sed -n 's/^\(CORALE_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done

# Of the MPI door what a call enters; without an MPI none of it.
mpi_flags=$({ ${MPICC:-mpicc} -showme:compile || ${MPICC:-mpicc} -compile-info | cut -d ' ' -f 2-; } 2>/dev/null)
mpi_libs=$({ ${MPICC:-mpicc} -showme:link || ${MPICC:-mpicc} -link-info | cut -d ' ' -f 2-; } 2>/dev/null)
mpi_files=${mpi_libs:+test/call/call_path_mpi.c}
for name in coll_api coll_corale coll_fill coll_run coll_stage coll_wrong comm memory memory_none reduction route staging statistics tools types types_decode types_runs; do
	[ -z "$mpi_libs" ] || mpi_files="$mpi_files pmpi_glue/$name.c"
done

# Object files by the source's path; the options of the build but for -O0 and the calls at entries and exits.
build()
{
	cd "$top" || return 1
	# shellcheck disable=SC2086 # words
	find lib $mpi_files nccl_glue/coll.c nccl_glue/group.c nccl_glue/comm_handle.c nccl_glue/error.c nccl_glue/log.c test/helpers/team.c test/call/call_path.c test/helpers/fake_engine.c test/helpers/fake_gpu_memory.c -name '*.c' | sort -u | grep -vE '^lib/net/ucx/(transport_)?ucx|^lib/boot/|^lib/cuda/codelet/|cuda_|/nvml\.c|^lib/cuda/none\.c|/trace_nvtx\.c|/exporter|_cuda|_hwloc|_module\.c|/module(_start)?\.c|/ucx_find' |
		xargs -P "$(nproc)" -I FILE sh -c '
			object=$1/$(echo FILE | tr / _).o
			$2 -std=gnu11 -pthread -g -O0 -finstrument-functions -ffp-contract=off -fno-pie -Iinclude -Ilib -I. $3 \
				-iquote "$(dirname FILE)" -iquote pmpi_glue -c FILE -o "$object" || exit 255' sh "$scratch" "$cc" "$mpi_flags" &&
		$cc -no-pie -pthread -Wl,--unresolved-symbols=ignore-all -o "$scratch/call_path" "$scratch"/*.o $mpi_libs -lm # of the NCCL door only what a call enters
}

# A line for each function: call, depth, name. One of a header, which each file has for itself, is one: compilers differ in whose file they call it.
list()
{
	timeout -k 5 60 "$scratch/call_path" >"$scratch/functions" || return 1
	find "$top/lib" "$top/nccl_glue" "$top/pmpi_glue" "$top/test" -name '*.h' -exec sed -n 's/^\(static inline\|[A-Z]*_FN\) .*[ *]\([a-z0-9_]*\)(.*/\2/p' {} + >"$scratch/inline"
	awk '{ print $3 }' "$scratch/functions" | addr2line -f -e "$scratch/call_path" | paste -d ' ' - - |
		paste -d ' ' "$scratch/functions" - |
		awk -v inline="$scratch/inline" 'BEGIN { while ((getline name_of < inline) > 0) of_header[name_of] = 1 }
		{ sub(".*/", "", $5); sub(":.*", "", $5); key = $1 " " $4 ($4 in of_header ? "" : " " $5) }
		!(key in deep) { order[++n] = key; call[n] = $1; name[n] = $4 }
		!(key in deep) || $2 > deep[key] { deep[key] = $2 }
		END { for (i = 1; i <= n; i++) print call[i], deep[order[i]], name[i] }'
}

print()
{
	awk '{ n[$1]++; if ($2 > deep[$1]) deep[$1] = $2; if (n[$1] == 1) order[++calls] = $1 }
	END { for (i = 1; i <= calls; i++) print order[i], n[order[i]], deep[order[i]] }' "$scratch/list"
}

build >"$scratch/output" 2>&1 && list >"$scratch/list" 2>>"$scratch/output"
built=$?
case $1 in
print) cat "$scratch/output" >&2; printf '# call, functions entered, greatest depth\n'; print; exit $built ;;
list) cat "$scratch/output" >&2; cat "$scratch/list"; exit $built ;;
esac
[ $built = 0 ] && [ -s "$scratch/list" ]
tell "the library is built with calls at each entry, and three calls run"
print >"$scratch/new"
while read -r call functions depth; do
	case $call in '#') continue ;; mpi_*) [ -n "$mpi_libs" ] || continue ;; esac
	awk -v call="$call" '$1 == call' "$scratch/list" | awk '{ printf "%*s%s\n", 2 * $2, "", $3 }' >"$scratch/output"
	# shellcheck disable=SC2046 # words
	set -- $(awk -v call="$call" '$1 == call { print $2, $3 }' "$scratch/new")
	echo "now ${1:-0} functions and ${2:-0} deep, the table has $functions and $depth; if that is meant: test/call/call_path.sh print" >>"$scratch/output"
	[ "$1" = "$functions" ] && [ "$2" = "$depth" ]
	tell "$call enters $functions functions before its first poll, at most $depth deep"
done <"$table"
echo "1..$number"
