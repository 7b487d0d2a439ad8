#!/bin/sh
# Include order: no file includes a header of a folder further down in lib/LAYERS, headers of other folders are named by
# their path, the pure folders keep the world out, MPI and CUDA headers stay where they belong, descriptors are opened in one file. TAP: one case per folder.
cd "${top_srcdir:-$(dirname "$0")/..}" || exit 1
folders=$(sed '/^#/d' lib/LAYERS | awk '{ print $1 }')
pure=" $(awk '$2 == "pure" { print $1 }' lib/LAYERS | tr '\n' ' ')"

# Prints the number of folder $1, 0 if the list lacks it.
number_of()
{
	number=$(echo "$folders" | grep -nxF -- "$1" | cut -d: -f1)
	echo "${number:-0}"
}

# Prints what is wrong with the header $2, in quotes, of file $1.
faults_of_own()
{
	folder=$(dirname "$1")
	[ ! -f "$folder/$2" ] || return
	for place in "lib/$2" "$2"; do
		[ -f "$place" ] || continue
		[ "$(number_of "$(dirname "$place")")" -lt "$(number_of "$folder")" ] ||
			echo "includes $place of a folder that is not lower"
		return
	done
	case $1:$2 in
	examples/*) ;; # of test/
	*:corale.h | *:corale_mpi.h | *:build_info.h) ;;
	*) echo "includes $2, which is in no folder of the list" ;;
	esac
}

# Prints what is wrong with the header $2, in angle brackets, of file $1.
faults_of_system()
{
	case $1:$2 in
	mpi_glue/*:mpi.h | nccl_glue/nccl.h:cuda* | nccl_glue/device_cuda.c:cuda* | examples/*:mpi.h | examples/*:corale_mpi.h | kernels/*:cuda* | examples/*_cuda.[ch]:cuda* | examples/*.cu*:cuda* | lib/cuda/cuda_driver.[ch]:cuda* | lib/cuda/engine_cuda.[ch]:cuda*) ;;
	*:mpi.h | *:corale_mpi.h | *:cuda*) echo "includes <$2>" ;;
	esac
	case $pure in *" $(dirname "$1") "*) ;; *) return ;; esac
	case $2 in
	pthread.h | threads.h | unistd.h | time.h | sys/* | fcntl.h | sched.h) echo "is pure but includes <$2>" ;;
	esac
}

faults_of()
{
	for header in $(sed -n 's/^#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$1"); do
		faults_of_own "$1" "$header"
	done
	for header in $(sed -n 's/^#[ \t]*include[ \t]*<\([^>]*\)>.*/\1/p' "$1"); do
		faults_of_system "$1" "$header"
	done
	case $1 in lib/base/descriptor.c | examples/*) ;; *)
		! grep -qE '\b(fopen|openat|socket|socketpair|accept4?|eventfd|memfd_create|pipe2?|dup)\(|[^_a-z>.]open\([^)]*O_' "$1" ||
			echo "opens a descriptor that may be of a standard stream or stay open after exec: see lib/base/descriptor.h" ;;
	esac
	case $pure in *" $(dirname "$1") "*)
		! grep -qE '\b(getenv|clock_gettime|pthread_[a-z]+|fopen|open)\(' "$1" ||
			echo "is pure but reaches outside: getenv, clock, threads or files"
	esac
}

echo "1..$(($(echo "$folders" | wc -l) + 1))"
number=1
find lib mpi_glue nccl_glue kernels examples -type d ! -name '.*' | sort | while read -r folder; do
	sources=$(find "$folder" -maxdepth 1 -name '*.[ch]' -o -maxdepth 1 -name '*.cu' -o -maxdepth 1 -name '*.cuh')
	[ -z "$sources" ] || [ "$(number_of "$folder")" != 0 ] || echo "# $folder is not in lib/LAYERS"
done | grep . && word="not ok" || word=ok
echo "$word 1 - every folder is in lib/LAYERS"
for folder in $folders; do
	faults=$(for file in "$folder"/*.[ch] "$folder"/*.cu "$folder"/*.cuh; do
		[ -f "$file" ] && faults_of "$file" | sed "s,^,# $file ,"
	done)
	number=$((number + 1))
	[ -n "$faults" ] && word="not ok" || word=ok
	echo "$word $number - $folder"
	[ -z "$faults" ] || echo "$faults"
done
