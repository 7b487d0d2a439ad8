#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The training example: with any number of ranks, buckets and nodes its losses are those of one rank, its parameters
# have the same bits on all ranks, and it says when they have not. TAP.
. "$top_srcdir/test/launcher-env.sh"
if [ -z "$MPIRUN" ]; then
	echo "1..0 # SKIP this build has no MPI"
	exit 0
fi
number=0
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# result STATUS DESCRIPTION
result()
{
	number=$((number + 1))
	if [ "$1" = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; fi
}

# train FILE RANKS OPTION...: its output goes to FILE in $scratch.
train()
{
	file=$1 ranks=$2
	shift 2
	timeout -k 5 60 "$MPIRUN" -n "$ranks" "$top_builddir/examples/train" "$@" >"$scratch/$file" 2>&1 </dev/null
}

# same DESCRIPTION RANKS OPTION...: trains with --check, and prints the losses that one rank has printed.
same()
{
	description=$1
	shift
	train out "$@" --layers 3 --width 192 --batch 96 --steps 20 --repeats 2 --check
	code=$?
	sed 's/^/# /' "$scratch/out"
	[ $code = 0 ] && [ "$(grep -c '^# check: .*: OK$' "$scratch/out")" = 2 ]
	result $? "$description: exit status and checks"
	grep '^step' "$scratch/out" >"$scratch/losses"
	[ -s "$scratch/one" ] || cp "$scratch/losses" "$scratch/one"
	paste "$scratch/one" "$scratch/losses" | awk '
		{ apart = $4 - $8; if (apart < 0) apart = -apart }
		NF != 8 || $2 != $6 || !(apart <= 3e-6 * $4) { print "# " $0; bad = 1 }
		NR == 1 { first = $4 }
		END { exit bad || NR < 10 || !($4 < 0.8 * first) }'
	result $? "$description: the losses of one rank, and they fall"
	[ "$(grep -cE '^time [a-z ]+ +-?[0-9]+\.[0-9]+( |$)' "$scratch/out")" = 6 ]
	result $? "$description: six times"
}

same "1 rank" 1
same "2 ranks" 2
same "4 ranks, 8 buckets" 4 --bucket-bytes 60000
CORALE_NODE_SIZE=2 same "2 nodes of 2, ordinary memory" 4 --bucket-bytes 200K --plain
same "3 ranks, no overlap" 3 --bucket-bytes 16K --no-overlap

# refuse NAME RANKS OPTION...: what must be refused, started beside the others.
refuse()
{
	train "$@"
	echo "status $?" >>"$scratch/$1"
}

# refused NAME MESSAGE DESCRIPTION
refused()
{
	sed 's/^/# /' "$scratch/$1"
	grep -q -- "$2" "$scratch/$1" && grep -q '^status 2$' "$scratch/$1"
	result $? "$3 is status 2, and said"
}

refuse batch 2 --batch 25 &
refuse type 1 --type bfloat16 &
refuse bucket 1 --bucket-bytes many &
refuse option 1 4 &
refuse policy 1 --cta-policy few &
refuse blocks 1 --cta-policy efficient &
wait
refused batch '--batch 25: 2 ranks computing on host need' "a batch that the ranks cannot share"
refused type 'bfloat16: the host multiplies float32 only' "a type that the device has not"
refused bucket 'many: expected a size' "a malformed size"
refused policy 'few: expected auto, efficient or zero' "a policy that there is not"
refused blocks '--cta-policy efficient: the host has no blocks' "a policy for blocks that the device has not"
refused option "'4' is not an option" "an argument that is no option"
echo "1..$number"
