#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The order of folders: no file includes a header of a folder further down in lib/LAYERS, and none uses a function or variable that is defined in
# one, as the build's object files say. Headers of other folders are named by their path, the pure folders keep the world out, MPI and CUDA headers stay
# where they belong, descriptors are opened in one file. TAP: one case per folder.
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
. "$top_srcdir/test/run/tap.sh"
. "$top_srcdir/test/tree/symbols.sh"

symbols lib kernels mpi_glue pmpi_glue nccl_glue examples >"$scratch/symbols"
cd "$top_srcdir" || exit 1
find lib mpi_glue pmpi_glue nccl_glue kernels examples -name '.*' -prune -o -name '*.[ch]' -print -o -name '*.cu' -print -o -name '*.cuh' -print -o -name '*.def' -print | sort >"$scratch/files"

# Reads lib/LAYERS, the list of files, the symbols, and then each file.
awk -v kind=layers '
function fault(folder, file, text) { if (!said[file, text]++) faults[folder] = faults[folder] "# " file " " text "\n" }
function folder_of(path) { sub("/[^/]*$", "", path); return path }
function is_lower(path) { return (folder_of(path) in layer) && layer[folder_of(path)] < layer[folder] }

# A header in quotes: of the own folder, or by its path from lib/ or from the top.
function own_header(name) {
	if ((folder "/" name) in exists)
		return
	path = ("lib/" name) in exists ? "lib/" name : name
	if (path in exists && !is_lower(path))
		fault(folder, FILENAME, "includes " path " of a folder that is not lower")
	else if (!(path in exists) && folder != "examples" && name !~ /^(corale|corale_mpi|build_info)\.h$/)
		fault(folder, FILENAME, "includes " name ", which is in no folder of the list")
}
function system_header(name) {
	at = FILENAME ":" name
	if (name ~ /^(mpi\.h$|corale_mpi\.h$|cuda)/ &&
	    at !~ /^p?mpi_glue\/.*:mpi\.h$|^pmpi_glue\/memory_cuda\.c:cuda|^examples\/.*:(corale_)?mpi\.h$|^nccl_glue\/(nccl\.h|device_cuda\.c):|^(kernels\/.*|examples\/.*(_cuda\.[ch]|\.cuh?)):cuda|^lib\/cuda\/(cuda_driver|engine_cuda_state)\.[ch]:cuda/)
		fault(folder, FILENAME, "includes <" name ">")
	if (folder in pure && name ~ /^((pthread|threads|unistd|time|fcntl|sched)\.h$|sys\/)/)
		fault(folder, FILENAME, "is pure but includes <" name ">")
}

kind == "layers" { if (!/^#/) { order[++n] = $1; layer[$1] = n; if ($2 == "pure") pure[$1] = 1 } next }
kind == "files" { exists[$1] = 1; ARGV[ARGC++] = $1; if (!(folder_of($1) in layer)) unlisted = unlisted "# " folder_of($1) " is not in lib/LAYERS\n"; next }
kind == "symbols" {
	if ($4 ~ /^(MPIX?_|ompi_)/) next # MPI itself has them
	if ($3 ~ /[TDBRW]/ && layer[$1] > layer[home[$4]]) home[$4] = $1
	if ($3 == "U") { user[++uses] = $1; by[uses] = $1 "/" $2; what[uses] = $4 }
	next
}
FNR == 1 { folder = folder_of(FILENAME) }
/^#[ \t]*include[ \t]*["<]/ {
	name = $0
	sub(/^[^"<]*["<]/, "", name)
	sub(/[">].*/, "", name)
	if (/^[^<]*"/) own_header(name); else system_header(name)
}
folder != "examples" && FILENAME != "lib/base/descriptor.c" &&
/(^|[^a-zA-Z0-9_])(fopen|openat|socket|socketpair|accept4?|eventfd|memfd_create|pipe2?|dup)\(|[^_a-z>.]open\([^)]*O_/ {
	fault(folder, FILENAME, "opens a descriptor that may be of a standard stream or stay open after exec: see lib/base/descriptor.h")
}
folder in pure && /(^|[^a-zA-Z0-9_])(getenv|clock_gettime|pthread_[a-z]+|fopen|open)\(/ {
	fault(folder, FILENAME, "is pure but reaches outside: getenv, clock, threads or files")
}

END {
	for (i = 1; i <= uses; i++)
		if (layer[home[what[i]]] > layer[user[i]])
			fault(user[i], by[i], "uses " what[i] " of " home[what[i]] ", which is not lower")
	print "1.." n + 2
	print (unlisted ? "not ok" : "ok") " 1 - every folder is in lib/LAYERS\n" unlisted (uses ? "ok" : "not ok") " 2 - object files are there"
	for (i = 1; i <= n; i++)
		printf "%s %d - %s\n%s", faults[order[i]] ? "not ok" : "ok", i + 2, order[i], faults[order[i]]
}' lib/LAYERS kind=files "$scratch/files" kind=symbols "$scratch/symbols" kind=source
