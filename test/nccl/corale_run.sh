#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# corale-run: order of preloads, arguments as they are, what --check says of programs and Python, missing libraries. TAP.
number=0
result() # status, description
{
	number=$((number + 1))
	if [ "$1" = 0 ]; then echo "ok $number - $2"; else
		echo "not ok $number - $2"
		printf '%s\n' "$output" | sed 's/^/# /'
	fi
}
has() # regular expression, description
{
	printf '%s\n' "$output" | grep -Eq -- "$1"
	result $? "$2"
}
is() # status, wanted status, description
{
	[ "$1" = "$2" ]
	result $? "$3"
}

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
unset LD_PRELOAD LD_LIBRARY_PATH CORALE_NCCL_VERSION

# libnccl FOLDER NUMBER TEXT: a library of that name whose ncclGetVersion returns NUMBER.
libnccl()
{
	mkdir -p "$1"
	echo "const char text[] = \"$3\"; int ncclGetVersion(void) { return $2; }" >"$scratch/nccl.c"
	$CC -shared -fPIC -Wl,-soname,libnccl.so.2 -o "$1/libnccl.so.2" "$scratch/nccl.c"
}

# tree FOLDER: an installation with a library of its own.
tree()
{
	mkdir -p "$1/bin"
	cp "$top_builddir/nccl_glue/corale-run" "$1/bin/"
	libnccl "$1/lib/corale" 1 "a library"
}

one_sum_seen() # description, program: the tool and Corale's see one sum
{
	output=$(CORALE_NCCL_DEVICE=host ASAN_OPTIONS=detect_leaks=0 "$real" "$2" 2>&1)
	is "$output" "tool: a sum
4" "$1"
}
compile() { $CC -w "-I$top_srcdir/nccl_glue" "$@"; }

skip() # reason
{
	echo "1..0 # SKIP $1"
	exit 0
}
echo 'int main(void) { return 0; }' >"$scratch/main.c"
$CC -o "$scratch/plain" "$scratch/main.c" 2>/dev/null && ldd "$scratch/plain" >/dev/null 2>&1 || skip "no compiler of dynamic programs, or no ldd"
echo 'int nothing(void) { return 0; }' >"$scratch/plain_library.c"
tree "$scratch/root"
run=$scratch/root/bin/corale-run
library=$scratch/root/lib/corale/libnccl.so.2

output=$("$run" --version)
has '^corale-run [0-9]+\.[0-9]+\.[0-9]+$' "--version"
output=$("$run" --help)
is $? 0 "--help"
has '^Usage: corale-run COMMAND' "usage"
output=$("$run" 2>&1)
is $? 2 "no command is status 2"
output=$("$run" --no-such-thing 2>&1)
is $? 2 "a wrong option is status 2"
output=$("$run" no-such-command 2>&1)
is $? 127 "a missing command is status 127"
has 'no command no-such-command' "and is named"

output=$("$run" sh -c 'echo "$LD_PRELOAD"')
is "$output" "$library" "preloads the library"
output=$(LD_PRELOAD=/no/such/other.so "$run" sh -c 'echo "$LD_PRELOAD"' 2>/dev/null)
is "$output" "/no/such/other.so:$library" "behind what is there"
output=$(LD_PRELOAD="/no/tool.so /no/libnccl.so.2:/no/libasan.so.8:/no/tool.so" "$run" sh -c 'echo "$LD_PRELOAD"' 2>/dev/null)
is "$output" "/no/libasan.so.8:/no/tool.so:$library:/no/libnccl.so.2" "a sanitizer's runtime, tools, Corale's, another libnccl"
output=$("$run" "$run" sh -c 'echo "$LD_PRELOAD"')
is "$output" "$library" "once"
output=$("$run" sh -c 'printf "<%s>" "$@"' name 'two words' '' '*' "it's")
is "$output" "<two words><><*><it's>" "arguments stay as they are"
"$run" sh -c 'exit 7'
is $? 7 "status of the command"
output=$("$run" -- sh -c 'echo x')
is "$output" x "-- ends the options"
cat >"$scratch/it is a script" <<'EOF'
#!/bin/sh
echo "script $1"
EOF
chmod +x "$scratch/it is a script"
output=$("$run" "$scratch/it is a script" a)
is "$output" "script a" "a command with spaces in its path"

# A program that was linked with another libnccl, which it names by DT_RPATH.
libnccl "$scratch/vendor's own" 22304 "NCCL version 2.23.4+cuda12.4"
echo 'int ncclGetVersion(void); int main(void) { return ncclGetVersion() != 1; }' >"$scratch/rpath.c"
$CC -o "$scratch/rpath" "$scratch/rpath.c" "$scratch/vendor's own/libnccl.so.2" \
	"-Wl,--disable-new-dtags,-rpath,$scratch/vendor's own"
"$scratch/rpath"
is $? 1 "a program gets the library of its DT_RPATH"
"$run" "$scratch/rpath"
is $? 0 "and under corale-run Corale's"
output=$("$run" --check "$scratch/rpath")
is $? 0 "--check of that program"
has "^without: .*/vendor's own/libnccl.so.2 \(NCCL 2\.23\.4\+cuda12\.4\)$" "names the one it would get, and its version"
has "^with: .*/root/lib/corale/libnccl.so.2 \(Corale [0-9.]+, answers as NCCL 2\.28\.9\)$" "names Corale's, and its version"
has "^result: *the loader takes Corale's$" "says which one"
wanted=$("$top_builddir/examples/corale-info" --settings-markdown | sed -n 's/^| `CORALE_NCCL_VERSION` |[^|]*| \([0-9]*\) .*/\1/p')
output=$(CORALE_NCCL_VERSION=$wanted "$run" --check)
wanted=$("$run" --check)
is "$output" "$wanted" "the version of NCCL is the library's default"

output=$("$run" --check /bin/true)
is $? 0 "--check of a program without NCCL"
has '^result: .*links no NCCL' "says so"
output=$("$run" --check true)
has '^program: .*/true$' "--check finds a command by PATH"
output=$("$run" --check no-such-command 2>&1)
is $? 127 "--check of a missing command"
output=$("$run" --check "$scratch/it is a script")
has '^program: .*/sh$' "--check looks into a script's interpreter"
output=$("$run" --check)
is $? 0 "--check without a command"

# Tools that wrap functions and call their profiling names, and sanitizers' runtimes, which must be first.
cat >"$scratch/sum.c" <<'EOF'
#include <stdio.h>
#include "nccl.h"
int main(void)
{
	static float in[4] = { 1, 2, 3, 4 }, out[4];
	ncclUniqueId id;
	ncclComm_t comm;
	if (ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 1, id, 0) || ncclAllReduce(in, out, 4, ncclFloat, ncclSum, comm, NULL) || ncclCommDestroy(comm))
		return 1;
	return printf("%g\n", out[3]) < 0;
}
EOF
cat >"$scratch/tool.c" <<'EOF'
#include <stdio.h>
#include "nccl.h"
ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	fprintf(stderr, "tool: a sum\n");
	return pncclAllReduce(in, out, n, type, op, comm, stream);
}
EOF
real=$top_builddir/nccl_glue/corale-run
libs=$(cd "$top_builddir/.libs" 2>/dev/null && pwd)
if [ -f "$libs/libnccl.so.2" ] && { [ -z "$sanitizer" ] || [ "$sanitizer" = none ]; } && compile "$scratch/sum.c" -o "$scratch/sum" "$libs/libnccl.so.2" &&
	compile -shared -fPIC "$scratch/tool.c" -o "$scratch/libtool.so"; then
	export LD_PRELOAD="$scratch/libtool.so"
	one_sum_seen "a tool by LD_PRELOAD" "$scratch/sum"
	unset LD_PRELOAD
	compile "$scratch/sum.c" -o "$scratch/linked_sum" -Wl,--no-as-needed "$scratch/libtool.so" "$libs/libnccl.so.2"
	one_sum_seen "a tool that is linked to the program" "$scratch/linked_sum"
	compile "$scratch/sum.c" "$scratch/tool.c" -o "$scratch/own_sum" "$libs/libnccl.so.2"
	one_sum_seen "a tool in the program itself" "$scratch/own_sum"
	output=$("$real" --check "$scratch/linked_sum")
	has "^chain: +program > $scratch/libtool.so > $libs/libnccl.so.2$" "--check prints the chain"
	for kind in address thread undefined; do
		compile -fsanitize=$kind "$scratch/main.c" -o "$scratch/sanitized" 2>/dev/null && "$scratch/sanitized" 2>/dev/null || continue
		compile -fsanitize=$kind "$scratch/sum.c" -o "$scratch/sanitized" -Wl,--no-as-needed "$scratch/libtool.so" "$libs/libnccl.so.2"
		one_sum_seen "a program with -fsanitize=$kind, and a tool" "$scratch/sanitized"
	done
fi

echo 'const char text[] = "NCCL version 2.19.3+cuda12.1 NCCL_GRAPH_DUMP_FILE"; int main(void) { return !text[0]; }' >"$scratch/static.c"
$CC -o "$scratch/static" "$scratch/static.c"
output=$("$run" --check "$scratch/static")
is $? 1 "--check of a program with NCCL inside"
has '^result: .*has NCCL 2\.19\.3\+cuda12\.1 linked statically' "says so"
if $CC -static -o "$scratch/all_static" "$scratch/main.c" 2>/dev/null && ! ldd "$scratch/all_static" >/dev/null 2>&1; then
	output=$("$run" --check "$scratch/all_static")
	is $? 1 "--check of a static program"
	has '^result: .*is linked statically' "says so"
fi

# A Python whose PyTorch is linked with the other library.
if command -v python3 >/dev/null; then
	mkdir -p "$scratch/site/torch/lib"
	: >"$scratch/site/torch/__init__.py"
	$CC -shared -fPIC -o "$scratch/site/torch/lib/libtorch_cuda.so" "$scratch/main.c" -Wl,--no-as-needed \
		"$scratch/vendor's own/libnccl.so.2" "-Wl,--disable-new-dtags,-rpath,$scratch/vendor's own"
	output=$(PYTHONPATH=$scratch/site "$run" --check python3)
	is $? 0 "--check of Python"
	has "^program: .*/python[0-9.]*$" "finds the program"
	has "^PyTorch's: .*/site/torch/lib/libtorch_cuda.so$" "looks into its PyTorch"
	has "^without: .*/vendor's own/libnccl.so.2" "which has another library without Corale"
	$CC -shared -fPIC -o "$scratch/site/torch/lib/libtorch_cuda.so" "$scratch/static.c"
	output=$(PYTHONPATH=$scratch/site "$run" --check python3)
	is $? 1 "--check of a PyTorch with NCCL inside"
fi

output=$("$run" --check)
! printf '%s\n' "$output" | grep -q '^nodes:'
result $? "--check without the program that looks for UCX says nothing of nodes"
if [ -f "$top_builddir/.libs/corale_ucx.so" ]; then
	cp "$top_builddir"/.libs/corale_*.so "$scratch/root/lib/corale/"
	cp "$top_builddir/nccl_glue/corale-nodes" "$scratch/root/lib/corale/"
	output=$(unset CORALE_MODULES && "$run" --check)
	has '^nodes: *UCX [0-9.]+, .*/libucp\.so\.0' "--check names the UCX between nodes"
	output=$(CORALE_UCX_LIBRARY=$scratch "$run" --check)
	has '^nodes: *one only: CORALE_UCX_LIBRARY=.*expected the path of a libucp\.so\.0' "--check says why ranks on several nodes would not work"
fi

tree "$scratch/a root"
output=$("$scratch/a root/bin/corale-run" sh -c 'echo "$LD_PRELOAD $LD_LIBRARY_PATH"')
is "$output" "libnccl.so.2 $scratch/a root/lib/corale" "a library with spaces in its path is found by name"
$CC -o "$scratch/linked" "$scratch/rpath.c" "$scratch/vendor's own/libnccl.so.2"
LD_LIBRARY_PATH="$scratch/vendor's own" "$scratch/a root/bin/corale-run" "$scratch/linked"
is $? 0 "before LD_LIBRARY_PATH"
output=$("$scratch/a root/bin/corale-run" --check "$scratch/rpath")
is $? 1 "--check: behind a DT_RPATH it is not"
has "^result: *the loader does not take Corale's$" "and says so"
tree "$scratch/a:root"
output=$("$scratch/a:root/bin/corale-run" true 2>&1)
is $? 127 "a library with a colon in its path is refused"
has 'colon.*a:root' "and named"

mkdir "$scratch/build" "$scratch/build/glue"
cp "$run" "$scratch/build/glue/"
libnccl "$scratch/build/.libs" 1 "a library"
output=$("$scratch/build/glue/corale-run" sh -c 'echo "$LD_PRELOAD"')
is "$output" "$scratch/build/.libs/libnccl.so.2" "in a build tree"
touch "$scratch/root/lib/corale/libcorale_pmpi.so"
output=$("$run" --mpi sh -c 'echo "$LD_PRELOAD"' 2>/dev/null)
is "$output" "$scratch/root/lib/corale/libcorale_pmpi.so" "--mpi: the MPI door"
output=$("$run" --mpi 2>&1)
is $? 2 "--mpi without a command is status 2"
output=$("$run" --check --mpi "$scratch/plain" 2>&1)
has "links no shared library of MPI" "--check --mpi of a program without MPI"
# Doors for two MPIs: made up, as are the MPIs.
doors=$scratch/root/lib/corale
rm "$doors/libcorale_pmpi.so"
touch "$doors/libcorale_pmpi_openmpi.so" "$doors/libcorale_pmpi_mpich.so"
$CC -shared -fPIC -Wl,-soname,libmpi.so.40 -o "$scratch/libmpi.so.40" "$scratch/plain_library.c"
$CC -shared -fPIC -Wl,-soname,libmpich.so.12 -o "$scratch/libmpich.so.12" "$scratch/plain_library.c"
$CC -o "$scratch/linked_first" "$scratch/main.c" -Wl,--no-as-needed "$scratch/libmpich.so.12" "-Wl,-rpath,$scratch"
$CC -o "$scratch/linked_second" "$scratch/main.c" -Wl,--no-as-needed "$scratch/libmpi.so.40" "-Wl,-rpath,$scratch"
door() # wanted, description, [variable=value]... command: the door that is preloaded
{
	wanted=$1 about=$2
	shift 2
	output=$(unset OMPI_COMM_WORLD_SIZE PMI_SIZE CORALE_MPI_LIBRARY && env "$@" 2>&1)
	has "libcorale_pmpi_$wanted\.so" "$about"
}
door mpich "the door of a program's MPI: MPICH" OMPI_COMM_WORLD_SIZE=2 "$run" --check --mpi "$scratch/linked_first"
door openmpi "of a program's MPI: Open MPI" PMI_SIZE=2 "$run" --check --mpi "$scratch/linked_second"
door mpich "the door of the launcher that started it: MPICH" PMI_SIZE=2 CORALE_MPI_LIBRARY="$scratch/libmpi.so.40" "$run" --mpi sh -c 'echo "$LD_PRELOAD"'
door openmpi "of the launcher that started it: Open MPI" OMPI_COMM_WORLD_SIZE=2 CORALE_MPI_LIBRARY="$scratch/libmpich.so.12" "$run" --mpi sh -c 'echo "$LD_PRELOAD"'
door mpich "the door of CORALE_MPI_LIBRARY" CORALE_MPI_LIBRARY="$scratch/libmpich.so.12" "$run" --mpi sh -c 'echo "$LD_PRELOAD"'
door openmpi "Open MPI's door where nothing says" "$run" --mpi sh -c 'echo "$LD_PRELOAD"'
cp "$scratch/plain" "$scratch/mpirun.openmpi"
cp "$scratch/plain" "$scratch/mpiexec.hydra"
door mpich "the door of a launcher: MPICH" OMPI_COMM_WORLD_SIZE=2 "$run" --check --mpi "$scratch/mpiexec.hydra"
door openmpi "of a launcher: Open MPI" PMI_SIZE=2 "$run" --check --mpi "$scratch/mpirun.openmpi"
output=$(OMPI_COMM_WORLD_SIZE=2 "$run" --mpi env -u OMPI_COMM_WORLD_SIZE PMI_SIZE=2 "$run" --mpi sh -c 'echo "$LD_PRELOAD"' 2>/dev/null)
is "$output" "$doors/libcorale_pmpi_mpich.so" "one door, the innermost"
rm -r "$scratch/root/lib"
sed "s,^libdir=.*,libdir='$scratch/nowhere'," "$run" >"$scratch/root/bin/lost"
chmod +x "$scratch/root/bin/lost"
output=$("$scratch/root/bin/lost" true 2>&1)
is $? 127 "a missing library is status 127"
has "no library $scratch/nowhere/corale/libnccl.so.2" "and is named"
echo "1..$number"
