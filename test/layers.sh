#!/bin/sh
# Include order: no file includes a header of a higher layer (lib/LAYERS), the pure layer keeps the world out, MPI
# and CUDA headers stay where they belong. TAP: one case per layer.
cd "${top_srcdir:-$(dirname "$0")/..}" || exit 1
layers=$(sed '/^#/d' lib/LAYERS)

# Prints the number of the first layer that has a pattern for $1; 0 when none has.
layer_of()
{
	echo "$layers" | {
		number=0
		set -f
		while read -r _ patterns; do
			number=$((number + 1))
			for pattern in $patterns; do
				case $1 in $pattern) echo $number; return ;; esac
			done
		done
		echo 0
	}
}

# Prints what is wrong with file $1 of layer $2.
faults_of()
{
	[ "$2" != 0 ] || echo "has no layer in lib/LAYERS"
	for header in $(sed -n 's/^#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$1"); do
		for place in "$(dirname "$1")/$header" "lib/$header" "mpi_glue/$header" "kernels/$header"; do
			[ -f "$place" ] || continue
			[ "$(layer_of "$place")" -le "$2" ] || echo "includes $place of a higher layer"
			break
		done
	done
	for header in $(sed -n 's/^#[ \t]*include[ \t]*<\([^>]*\)>.*/\1/p' "$1"); do
		case $1:$header in
		mpi_glue/*:mpi.h | examples/*:mpi.h | examples/*:corale_mpi.h | kernels/*:cuda* | examples/*_cuda.[ch]:cuda* | lib/device_cuda.[ch]:cuda* | lib/engine_cuda.[ch]:cuda*) ;;
		*:mpi.h | *:corale_mpi.h | *:cuda*) echo "includes <$header>" ;;
		esac
		[ "$2" = "$pure" ] || continue
		case $header in
		pthread.h | threads.h | unistd.h | time.h | sys/* | fcntl.h | sched.h) echo "is pure but includes <$header>" ;;
		esac
	done
	if [ "$2" = "$pure" ] && grep -qE '\b(getenv|clock_gettime|pthread_[a-z]+|fopen|open)\(' "$1"; then
		echo "is pure but reaches outside: getenv, clock, threads or files"
	fi
}

pure=$(echo "$layers" | awk '$1 == "pure" { print NR }')
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
for file in lib/*.[ch] mpi_glue/*.[ch] kernels/*.c kernels/*.h kernels/*.cu kernels/*.cuh examples/*.[ch]; do
	[ -f "$file" ] || continue
	own=$(layer_of "$file")
	faults_of "$file" "$own" | sed "s,^,# $file ," >>"$scratch/$own"
done
echo "1..$(($(echo "$layers" | wc -l) + 1))"
number=0
for name in none $(echo "$layers" | awk '{ print $1 }'); do
	[ -s "$scratch/$number" ] && word="not ok" || word=ok
	echo "$word $((number + 1)) - layer $name"
	cat "$scratch/$number" 2>/dev/null
	number=$((number + 1))
done
