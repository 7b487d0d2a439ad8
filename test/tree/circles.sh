#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Circles of files: files of one folder whose functions call each other, directly or through others of the folder. The largest circle of each folder
# is held to test/tree/circles.table, which a change may only make smaller. Reads the symbols of the build's object files, of shared libraries where there are no others. TAP.
# "test/tree/circles.sh list" prints the files of each circle.
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
. "$top_srcdir/test/run/tap.sh"
. "$top_srcdir/test/tree/symbols.sh"

# A line for each file that reaches itself: folder, the circle's first file, file.
list()
{
	symbols lib mpi_glue nccl_glue |
		awk '$3 ~ /[TDBR]/ { home[$4] = $1 " " $2 }
		$3 == "U" { uses[++n] = $1 " " $2; what[n] = $4 }
		END {
			for (i = 1; i <= n; i++)
				if ((to = home[what[i]]) != "" && to != uses[i]) {
					split(to, a); split(uses[i], b)
					if (a[1] == b[1]) reaches[uses[i], to] = file[uses[i]] = file[to] = 1
				}
			for (k in file) for (i in file) if ((i, k) in reaches)
				for (j in file) if ((k, j) in reaches) reaches[i, j] = 1
			for (i in file) if ((i, i) in reaches) {
				first = i
				for (j in file) if ((i, j) in reaches && (j, i) in reaches && j < first) first = j
				split(first, a); split(i, b)
				print b[1], a[2], b[2]
			}
		}' | sort
}

list >"$scratch/list"
[ "$1" != list ] || { cat "$scratch/list"; exit; }
find lib -name '*.o' | grep -q .
tell "object files are there"
while read -r folder most; do
	case $folder in '#') continue ;; esac
	awk -v folder="$folder" '$1 == folder { files[$2] = files[$2] " " $3; n[$2]++ }
	END { for (c in n) print n[c], files[c] }' "$scratch/list" | sort -rn >"$scratch/output"
	read -r largest _ <"$scratch/output" || largest=0
	[ "$largest" -le "$most" ]
	tell "$folder: circles of at most $most files"
done <"$top_srcdir/test/tree/circles.table"
others=$(awk 'NR == FNR { known[$1] = 1; next } !($1 in known)' "$top_srcdir/test/tree/circles.table" "$scratch/list")
echo "$others" >"$scratch/output"
[ -z "$others" ]
tell "no other folder has a circle"
echo "1..$number"
