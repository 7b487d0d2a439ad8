#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How programs get libnccl.so.2: what it needs and runs when it is loaded, whether NCCL's functions (test/nccl/nccl_abi.table), of which PyTorch, CuPy
# and JAX import some, are all there when symbols are bound at once, and dlopen as XLA does it. TAP.
cd "${top_srcdir:-$(dirname "$0")/../..}" && top_srcdir=$PWD || exit 1
cc=${CC:-cc}
. "$top_srcdir/test/run/tap.sh"

skip_all() # reason
{
	echo "1..0 # SKIP $1"
	exit 0
}

library=$(find "${top_builddir:-.}" -name libnccl.so.2 | head -n 1)
[ -n "$library" ] || skip_all "no libnccl.so.2 in this build"
[ -z "$sanitizer" ] || [ "$sanitizer" = none ] || skip_all "a sanitizer's build"
library=$(readlink -f "$library")
here=$(dirname "$library") # libtool links libnccl.so.2 there

# ---- The file

dynamic() # tag
{
	readelf -W -d "$library" | sed -n "s/.*($1).*\[\(.*\)\]/\1/p"
}
only() # description, file with the lines, allowed lines as a pattern of grep -E
{
	grep -vxE "$3" "$2" >"$scratch/why"
	[ $? = 1 ]
	result $? "$1" "$scratch/why"
}

dynamic NEEDED >"$scratch/needed"
only "needs the system's libraries alone" "$scratch/needed" \
	'(libc|libm|libpthread|libdl|librt)\.so\.[0-9]+|ld-linux.*\.so\.[0-9]+'
dynamic SONAME >"$scratch/soname"
only "its SONAME is NCCL's" "$scratch/soname" 'libnccl\.so\.2'
[ -s "$scratch/soname" ]
result $? "it has a SONAME" /dev/null
readelf -W -d "$library" >"$scratch/dynamic"
grep -q 'NODELETE' "$scratch/dynamic"
result $? "dlclose does not unload it" "$scratch/dynamic"
! readelf -W -d "$library" | grep -E 'R(UN)?PATH' >"$scratch/why"
result $? "it has no search path" "$scratch/why"

# Functions that run when it is loaded: the entries of .init_array, by their symbols.
init_functions()
{
	at=$(sed -n 's/.*(INIT_ARRAY) *0x0*//p' "$scratch/dynamic")
	bytes=$(sed -n 's/.*(INIT_ARRAYSZ) *\([0-9]*\).*/\1/p' "$scratch/dynamic")
	readelf -W -r "$library" | awk '/RELATIV/ { print $1, $NF }' >"$scratch/relative"
	nm "$library" | awk '$2 == "t" || $2 == "T" { sub(/^0+/, "", $1); print $1, $3 }' >"$scratch/symbols"
	i=0
	while [ $i -lt "${bytes:-0}" ]; do
		slot=$(printf '%016x' $((0x$at + i)))
		function=$(awk -v slot="$slot" '$1 == slot { print $2 }' "$scratch/relative")
		awk -v function_at="$function" '$1 == function_at { print $2; exit }' "$scratch/symbols" | grep . || echo "unknown $function"
		i=$((i + 8))
	done
}
# The compiler's: frame_dummy; libgcc's answer to which instructions the processor has; nvcc's lists of kernels, which make no CUDA call.
# CUDA 12's static runtime has two, which prepare a lock and a table of its own; CUDA 13's has none.
init_functions >"$scratch/init"
only "no constructor but the compiler's" "$scratch/init" \
	'frame_dummy|__cpu_indicator_init|init_have_lse_atomics|__sti____cudaRegisterAll.*|_ZL[0-9]+__sti____cudaRegisterAllv|_GLOBAL__sub_I_.*cudafe.*|libcudart_static_[0-9a-f]{40}'
[ -s "$scratch/init" ]
result $? "constructors were found" "$scratch/dynamic"

# ---- In a process

build() # program, source, options
{
	program=$1 file=$2
	shift 2
	$cc -O1 -o "$scratch/$program" "$file" "$@" >"$scratch/why" 2>&1
}
preload() # command
{
	env LD_PRELOAD="$library" LD_BIND_NOW=1 timeout 60 "$@"
}

# Nothing is done before the first call: threads, descriptors and libraries of a process with and without it.
cat >"$scratch/idle.c" <<'EOF'
#include <dirent.h>
#include <stdio.h>
#include <string.h>
static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;
	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}
int main(void)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
	printf("threads %d descriptors %d\n", threads, files);
	while (maps && fgets(line, sizeof line, maps))
		if (strstr(line, ".so") && strstr(line, " r-xp ") && !strstr(line, "libnccl"))
			printf("library %s", strrchr(line, '/'));
	return 0;
}
EOF
if build idle "$scratch/idle.c"; then
	"$scratch/idle" | sort -u >"$scratch/without"
	preload "$scratch/idle" | sort -u >"$scratch/with"
	grep '^threads' "$scratch/without" >"$scratch/a"
	grep '^threads' "$scratch/with" >"$scratch/b"
	diff "$scratch/a" "$scratch/b" >"$scratch/why"
	result $? "a program that does not use it gets no thread and no descriptor" "$scratch/why"
	grep '^library' "$scratch/with" >"$scratch/loaded"
	only "and no library" "$scratch/loaded" 'library /(libc|libm|libpthread|libdl|librt)[.-].*|library /ld-.*'
else
	result 1 "a program that does not use it" "$scratch/why"
fi
preload /bin/true 2>"$scratch/why"
result $? "/bin/true runs" "$scratch/why"

# A library that imports all functions, bound at once.
names=$(awk '$1 == "function" || $1 == "lone" { print $2 }' "$top_srcdir/test/nccl/nccl_abi.table")
imports()
{
	# shellcheck disable=SC2086 # words
	printf 'void %s(void);\n' $names
	echo 'void *nccl_imports[] = {'
	# shellcheck disable=SC2086 # words
	printf '(void *)%s,\n' $names
	echo '0 };'
	echo 'int nccl_call(int which); int nccl_call(int which) { switch (which) {'
	echo "$names" | awk '{ print "case " NR ": " $1 "(); break;" }'
	echo '} return 0; }'
}
cat >"$scratch/main.c" <<'EOF'
extern void *nccl_imports[];
int nccl_call(int which);
int main(void)
{
	int n = 0;
	while (nccl_imports[n])
		n++;
	return n < 5 || nccl_call(-1);
}
EOF
imports >"$scratch/imports.c"
if build libimports.so "$scratch/imports.c" -shared -fPIC &&
	build importer "$scratch/main.c" -L"$scratch" -limports -Wl,-rpath,"$scratch" -Wl,--unresolved-symbols=ignore-in-shared-libs; then
	preload "$scratch/importer" 2>"$scratch/why"
	result $? "what a library imports is there" "$scratch/why"
	! LD_BIND_NOW=1 "$scratch/importer" 2>"$scratch/why"
	result $? "without it that library's program does not start" "$scratch/why"
else
	result 1 "what a library imports" "$scratch/why"
fi

# XLA: dlopen by SONAME, dlsym of each name, and calls; the preloaded one answers.
cat >"$scratch/xla.c" <<'EOF'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "nccl_glue/nccl.h"
static void *find(void *library, const char *name)
{
	void *symbol = dlsym(library, name);
	Dl_info where;
	if (!symbol)
		printf("no %s: %s\n", name, dlerror());
	else if (!dladdr(symbol, &where) || !strstr(where.dli_fname, "libnccl.so.2"))
		printf("%s is elsewhere\n", name);
	return symbol;
}
int main(int argc, char **argv)
{
	void *library = dlopen("libnccl.so.2", RTLD_LAZY);
	int in = 3, out = 0, version = 0;
	ncclUniqueId id;
	ncclComm_t comm = NULL;
	if (!library)
		return printf("%s\n", dlerror()), 1;
	for (int i = 1; i < argc; i++)
		find(library, argv[i]);
	ncclResult_t (*get_version)(int *) = (ncclResult_t(*)(int *))find(library, "ncclGetVersion");
	ncclResult_t (*get_id)(ncclUniqueId *) = (ncclResult_t(*)(ncclUniqueId *))find(library, "ncclGetUniqueId");
	ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int) =
	    (ncclResult_t(*)(ncclComm_t *, int, ncclUniqueId, int))find(library, "ncclCommInitRank");
	ncclResult_t (*sum)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) =
	    (ncclResult_t(*)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))find(
		library, "ncclAllReduce");
	dlclose(library); /* it stays */
	if (get_version(&version) || version < 20000)
		printf("version %d\n", version);
	if (get_id(&id) || init(&comm, 1, id, 0) || sum(&in, &out, 1, ncclInt, ncclSum, comm, NULL) || out != 3)
		printf("a call failed: %d\n", out);
	return 0; /* without destroy, as XLA */
}
EOF
if build xla_program "$scratch/xla.c" -I"$top_srcdir" -DCORALE_NCCL_NO_CUDA -ldl; then
	# shellcheck disable=SC2086 # words
	env CORALE_NCCL_DEVICE=host LD_PRELOAD="$library" timeout 60 "$scratch/xla_program" $names >"$scratch/why" 2>&1 &&
		[ ! -s "$scratch/why" ]
	result $? "dlopen finds the preloaded one, and calls work behind dlclose" "$scratch/why"
	# shellcheck disable=SC2086 # words
	env CORALE_NCCL_DEVICE=host LD_LIBRARY_PATH="$here" timeout 60 "$scratch/xla_program" $names >"$scratch/why" 2>&1 &&
		[ ! -s "$scratch/why" ]
	result $? "the same by a search path" "$scratch/why"
else
	result 1 "dlopen as XLA" "$scratch/why"
fi
echo "1..$number"
