#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test/measure/beside_nccl and docs/beside_nccl.py with a program that makes its figures up: both libraries by turns, a failure that is named, the
# table. TAP.
. "$top_srcdir/test/run/tap.sh"
mkdir "$scratch/bin"
touch "$scratch/nccl"

cat >"$scratch/bin/mpirun" <<'END'
#!/bin/sh
shift 2
exec "$@"
END
# Corale: 2 us, NCCL: 4, 8 and 1.8 us, of which the median counts; reduce: 4 us and 2 us, one call alone the other way round. From
# scatter NCCL has wrong results.
cat >"$scratch/bin/corale_all_reduce_perf" <<'END'
#!/bin/sh
echo "$*" >>"$FAKE_RUNS"
case "$*" in $FAKE_FAILS) echo "corale: ERROR made up"; exit 3 ;; esac
library=corale mode='' us=2
while [ $# -gt 0 ]; do
	case $1 in
	--only) library=$2 mode=sockets ;;
	--raw) raw=$2 ;;
	esac
	shift
done
case $library-$(basename "$raw") in nccl-nccl-1.raw) us=4 ;; nccl-nccl-2.raw) us=8 ;; nccl-*) us=1.8 ;; esac
wrong=0 root=4 one=2
[ $library = corale ] || wrong=1 root=2 one=4
{
	printf '# corale-perf-raw 1\tversion=0\tranks=8\tnodes=8\tgpu=made up\tmode=eager\tnccl=NCCL 1.2.3 nccl\tlibrary=%s\n' $library
	printf 'coll\tbytes\twrong\tin_wrong\tus\tone_us\tlibrary\tnccl_mode\n'
	printf 'all_reduce\t8\t0\t0\t%s\t%s\t%s\t%s\n' $us $us $library $mode
	printf 'reduce\t8\t0\t0\t%s\t%s\t%s\t%s\n' $root $one $library $mode
	printf 'reduce\t2097152\t0\t\t100\t\t%s\t%s\n' $library $mode
	printf 'scatter\t8\t%s\t0\t1\t1\t%s\t%s\n' $wrong $library $mode
	printf 'reduce\t64\t0\t0\t1'
} >"$raw"
END
chmod +x "$scratch/bin/mpirun" "$scratch/bin/corale_all_reduce_perf"
export BESIDE_BIN="$scratch/bin" FAKE_RUNS="$scratch/runs" FAKE_FAILS=nothing

beside_nccl() # ARGUMENT...
{
	: >"$FAKE_RUNS"
	"$top_srcdir/test/measure/beside_nccl" --out "$scratch/out" --mpirun "$scratch/bin/mpirun" "$@" >"$scratch/output" 2>&1 </dev/null
}
says() { grep -q -e "$1" "$scratch/output"; }
ran() { sed -n "$1p" "$FAKE_RUNS" | grep -q -e "$2"; }

beside_nccl --library "$scratch/nccl" --graphs 4 -- -b 8 -e 8 && [ "$(wc -l <"$FAKE_RUNS")" = 6 ] &&
	! ran 1 --only && ran 1 '-b 8 -e 8 -G 4' && ran 2 '--only nccl .*--nccl-modes stock,sockets -b 8 -e 8 -G 4' && ! ran 3 --only && ran 6 --only
tell "three runs of each library, by turns"
if command -v python3 >/dev/null; then
	beside_nccl --library "$scratch/nccl"
	says '^### 8 ranks on 8 nodes, eager$' && says 'NCCL 1.2.3, made up.* 3 of corale and 3 of nccl' && says 'fastest mode, of 12 lines: sockets 12'
	tell "what was measured"
	says '^| all_reduce | 2.00 (2.00 / 4.00) |  | 2.00 |$'
	tell "medians over rounds"
	says '^| reduce | \*\*0.50\*\* (4.00 / 2.00) | 1.00 (100 / 100) | 0.71 |$' && says '^| reduce | 2.00 (2.00 / 4.00) | (- / -) | 2.00 |$'
	tell "a cell where NCCL is faster is marked; one call at a time"
	says '^| scatter | wrong: nccl |  |  |$' && says '^| all | 1.00 | 1.00 | 1.00 |$' && says '^Below 0.95: 1 of 3.$'
	tell "wrong results have no ratio, nor have lines that were cut off"
else
	skip "tables" "no python3"
fi
FAKE_FAILS='*--only*'
export FAKE_FAILS
! beside_nccl --library "$scratch/nccl" --rounds 2 && says 'FAILED with status 3: .*nccl-2.log' && [ "$(wc -l <"$FAKE_RUNS")" = 4 ]
tell "a failure is named, and the others go on"
FAKE_FAILS='*'
! beside_nccl --library "$scratch/nccl" && says 'nothing was measured'
tell "no table of nothing"
! beside_nccl && says '--library: where is' && ! beside_nccl --library "$scratch/none" && says 'there is no such file'
tell "a library that is not there is an error"
! beside_nccl --bogus && says "unknown argument '--bogus'"
tell "an unknown argument is an error"
echo "1..$number"
