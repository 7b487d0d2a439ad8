#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The examples and a perf program run over MPI ranks and end well. TAP.
. "$top_srcdir/test/run/launcher-env.sh"
if [ -z "$MPIRUN" ]; then
	echo "1..0 # SKIP this build has no MPI"
	exit 0
fi
. "$top_srcdir/test/run/tap.sh"

# try DESCRIPTION RANKS PROGRAM ARGUMENT...: must end with status 0.
try()
{
	description=$1 ranks=$2 program=$top_builddir/examples/$3
	shift 3
	output=$(timeout -k 5 240 "$MPIRUN" -n "$ranks" "$program" "$@" 2>&1 </dev/null)
	result $? "$description"
	echo "$output" | sed 's/^/# /'
}

# refuse DESCRIPTION WORDS RANKS PROGRAM ARGUMENT...: must end with another status, and these words in its output.
refuse()
{
	description=$1 words=$2 ranks=$3 program=$top_builddir/examples/$4
	shift 4
	output=$(timeout -k 5 240 "$MPIRUN" -n "$ranks" "$program" "$@" 2>&1 </dev/null)
	status=$?
	case $status,$output in
	0,*|124,*|137,*) result 1 "$description" ;;
	*"$words"*) result 0 "$description" ;;
	*) result 1 "$description" ;;
	esac
	echo "$output" | sed 's/^/# /'
}

# timed DESCRIPTION COLUMNS RANKS PROGRAM ARGUMENT...: ends with status 0, and in each line of its raw file these columns are above 0,
# and so are as many at the end of each printed line.
timed()
{
	description=$1 columns=$2 ranks=$3 program=$top_builddir/examples/$4
	shift 4
	raw=$scratch/raw
	output=$(timeout -k 5 240 "$MPIRUN" -n "$ranks" "$program" "$@" --raw "$raw" 2>&1 </dev/null) &&
		awk -F '\t' -v wanted="$columns" 'NR == 2 { for (i = 1; i <= NF; i++) at[$i] = i }
			NR > 2 { lines++; for (n = split(wanted, name, " "); n; n--) if (!(name[n] in at) || $at[name[n]] <= 0) bad = 1 }
			END { exit bad || !lines }' "$raw" &&
		echo "$output" | awk -v wanted="$columns" '/^ +[0-9]/ { lines++; for (n = split(wanted, name, " "); n; n--) if ($(NF - n + 1) <= 0) bad = 1 }
			END { exit bad || !lines }'
	result $? "$description"
	echo "$output" | sed 's/^/# /'
	sed 's/^/# /' "$raw"
	rm -f "$raw"
}

# says DESCRIPTION PATTERN: the last program printed a line of that form.
says()
{
	echo "$output" | grep -qx "$2"
	result $? "$1"
}

# readable DESCRIPTION: no line of the last program is longer than 100 characters, and no value is 0.00.
readable()
{
	echo "$output" | awk 'length > 100 || / 0\.0+( |$)/ { print "# " $0; bad = 1 } /^ +[0-9]/ { lines++ } END { exit bad || !lines }'
	result $? "$1"
}

# plan_refuses DESCRIPTION WORDS ARGUMENT...: corale-plan ends with status 2, these words on standard error and nothing on standard output.
plan_refuses()
{
	description=$1 words=$2
	shift 2
	output=$("$top_builddir/examples/corale-plan" "$@" 2>&1 >"$scratch/plan")
	[ $? = 2 ] && [ ! -s "$scratch/plan" ] && case $output in *"$words"*) ;; *) false ;; esac
	result $? "$description"
	echo "# $output"
}

# with_gpu DESCRIPTION RANKS PROGRAM ARGUMENT...: on GPU memory, or where there is none a refusal that says so.
with_gpu()
{
	if "$top_builddir/examples/corale-info" 2>&1 | grep -q 'GPUs.*seen by this process'; then
		try "$@"
	else
		description=$1
		shift
		refuse "$description" "--device cuda: " "$@"
	fi
}

try "the smallest program" 3 allreduce
for coll in all_reduce all_gather reduce_scatter broadcast all_to_all all_to_all_v all_gather_v reduce_scatter_v gather_v scatter_v reduce gather scatter sendrecv barrier; do
	try "corale_${coll}_perf" 3 corale_${coll}_perf -b 8 -e 64K -f 16 -n 5
done
try "corale_all_reduce_perf --vs-mpi" 2 corale_all_reduce_perf -b 8 -e 32K -f 64 --vs-mpi --blocks 3
readable "its lines"
timed "one call at a time" "one_us" 2 corale_reduce_perf -b 8 -e 4K -f 64 -n 5
timed "one call at a time, beside MPI" "one_us one_mpi_us one_ratio" 2 corale_broadcast_perf -b 8 -e 4K -f 64 -n 5 --vs-mpi \
	--blocks 3
for coll in reduce gather scatter; do
	CORALE_NODE_SIZE=2 try "corale_${coll}_perf --vs-mpi on 2 nodes" 3 corale_${coll}_perf -b 8 -e 32K -f 64 -r all \
		--vs-mpi --blocks 3
done
try "samples of what is larger than --check-max" 2 corale_all_to_all_perf -b 64M -e 64M -n 2 --check-max 1M
try "registered buffers" 2 corale_all_gather_perf -b 8 -e 64K -f 64 -R 1
try "the library's buffers, asynchronous calls" 2 corale_all_reduce_perf -b 8 -e 64K -f 64 -R 2 --stream
for coll in all_gather_v reduce_scatter_v gather_v scatter_v; do
	CORALE_NODE_SIZE=2 try "corale_${coll}_perf --vs-mpi on 2 nodes" 3 corale_${coll}_perf -b 8 -e 32K -f 64 --vs-mpi --blocks 3
done
for size in "-b nan" "-b inf" "-e 1e15G" "-b -1" "-f nan" "-f inf" "-f 1" "-i nan"; do
	refuse "a size or a factor that is none: $size" "malformed value" 2 corale_all_reduce_perf $size
done
try "options of nccl-tests, units with B" 2 corale_all_reduce_perf -g 1 -t 1 -x 1 -T 60 -m 4 -N 2 -b 8B -e 64KB -f 16
refuse "more than a GPU a process" "-g 2: a process is one rank" 2 corale_all_reduce_perf -g 2
refuse "an option of nccl-tests alone" "-V (--device_cta_count) is an option of nccl-tests alone; here CORALE_MAX_CTAS" 2 corale_all_reduce_perf -V 2
refuse "a policy that is none" "3: malformed value for -x" 2 corale_all_reduce_perf -x 3
refuse "the smallest size above the largest" "-b is above -e" 2 corale_all_reduce_perf -b 64K -e 8
refuse "a kind of device that is none: the list" "it takes one of: host cuda" 2 corale_all_reduce_perf --device gpu
refuse "a file that can't be written" "/nowhere/json: No such file" 2 corale_all_reduce_perf -J /nowhere/json
CORALE_ALGO=rnig plan_refuses "corale-plan: an algorithm that is none" '"rnig" is no algorithm; known: ' "node:2 rank:2"
plan_refuses "corale-plan: two numbers of GPUs" "given twice" "gpu:8 gpu:4"
plan_refuses "corale-plan: a number of steps that is none" "expected a number" -s foo "node:2 rank:2"
plan_refuses "corale-plan: a collective that is none" "all_redcue; known: all_reduce" "node:2 rank:2" all_redcue
plan_refuses "corale-plan: a type that is none" "bf16; known: int8" -t bf16 "node:2 rank:2"
plan_refuses "corale-plan: an operator that is none" "plus; known: sum" -o plus "node:2 rank:2"
plan_refuses "corale-plan: a file that can't be written" "cannot write to /nowhere/plot.svg" -p /nowhere/plot.svg "node:2 rank:2"
refuse "a type that is none: the list" "float16 bfloat16 float32" 2 corale_all_reduce_perf -d bf16
# Of corale_*_perf, which are one program by many names, one.
for path in $(find "$top_builddir/examples" -maxdepth 1 -type f -perm -u+x \( ! -name 'corale_*_perf' -o -name corale_all_reduce_perf \) | sort); do
	example=$(basename "$path")
	try "$example --help" 1 $example --help
	says "$example --help has the usage" "[Uu]sage: .*"
	try "$example --version" 1 $example --version
	says "$example --version has one" "corale [0-9]*\.[0-9]*\.[0-9]*"
done
if command -v python3 >/dev/null; then
	nodes=$top_srcdir/examples/nccl/check_nodes.py
	python3 "$nodes" --help | grep -q 'check_nodes.py' && python3 "$nodes" --version | grep -q '^check_nodes'
	result $? "check_nodes.py --help and --version"
fi
refuse "graphs on the host" "needs --device cuda" 2 corale_all_reduce_perf -G 8
refuse "NCCL on the host" "needs --device cuda" 2 corale_all_reduce_perf --vs-nccl libnccl.so.2
with_gpu "buffers on GPUs" 2 corale_all_reduce_perf --device cuda -b 8 -e 64K -f 64
refuse "products on the host" "needs --device cuda" 2 corale_all_reduce_perf --beside gemm
if [ -n "$CORALE_TEST_NCCL" ]; then
	try "beside NCCL, $CORALE_TEST_NCCL" 2 corale_all_reduce_perf --device cuda -b 8 -e 64K -f 64 \
		--vs-nccl "$CORALE_TEST_NCCL" --nccl-modes all
	try "beside NCCL in graphs" 2 corale_all_gather_perf --device cuda -b 8 -e 64K -f 64 -G 4 -R 2 \
		--vs-nccl "$CORALE_TEST_NCCL" --nccl-modes all
fi
CORALE_NODE_SIZE=1 timed "MPI alone, several collectives" "one_us" 2 corale_all_reduce_perf --only mpi --vs-mpi \
	--coll all_reduce,reduce_scatter,broadcast,gather,barrier -b 8 -e 512 -f 64 -n 5
try "Corale, all collectives in one run, as JSON" 2 corale_all_reduce_perf --coll all -b 8 -e 512 -f 64 -n 5 -J "$scratch/json"
readable "its lines"
grep -q '^{"coll": "all_to_all", "bytes": 512, "count": 64, "type": "float32", "op": "none", "root": -1, "us": [0-9.]*, .*"one_us": [0-9.]*' "$scratch/json"
result $? "a line of it"
if command -v python3 >/dev/null; then
	python3 -c 'import json, sys; run = json.load(open(sys.argv[1])); assert run["ranks"] == 2 and len(run["lines"]) == 29' "$scratch/json"
	result $? "all of it"
fi
refuse "NCCL alone without its library" "--only nccl needs" 2 corale_all_reduce_perf --only nccl
refuse "MPI alone with registered buffers" "-R registers buffers" 2 corale_all_reduce_perf --only mpi --vs-mpi -R 1
refuse "MPI alone on a stream" "--stream is for Corale" 2 corale_all_reduce_perf --only mpi --vs-mpi --stream
if [ -n "$CORALE_TEST_NCCL" ]; then
	timed "NCCL alone" "one_us" 2 corale_all_reduce_perf --device cuda --only nccl --vs-nccl "$CORALE_TEST_NCCL" \
		--nccl-modes stock,sockets --coll all_reduce,gather,all_to_all -b 8 -e 512 -f 64
fi
CORALE_NODE_SIZE=2 try "corale_all_reduce_perf on 2 nodes of 2" 4 corale_all_reduce_perf -b 8 -e 1M -f 8 -n 5
echo "1..$number"
