#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Mutation test of the MPI door's table of wrong calls (pmpi_glue/coll_wrong.c): each row and each check is taken out in turn, and test/pmpi/pmpi_wrong.c must notice.
# Prints one line a mutant: killed or SURVIVED. Exit status 1 if one survived or cannot be made any more. Not a part of make check; some minutes.
# Usage: test/mutants/mutants_door.sh [BUILD [WORD]]   a build directory with the door and test/pmpi/pmpi_wrong; only the mutants whose name holds WORD
. "$(dirname "$0")/mutate.sh"
build=$(cd "${1:-build}" && pwd) || exit 2
only=$2
. "$here/test/run/launcher-env.sh"
MPICC=${MPICC:-mpicc} MPIRUN=${MPIRUN:-mpirun}
for f in $(find "$build" -path "*/.libs/libcorale_pmpi_la-*.o"); do
	case $f in *coll_wrong*) ;; *) objects+=("$f") ;; esac
done
libs=$(sed -n 's/^dependency_libs=//p' "$build/libcorale_pmpi.la" | tr -d "'" | tr ' ' '\n' | grep '^-l' | tr '\n' ' ')

build() # source
{
	# shellcheck disable=SC2086 # words
	$MPICC -std=gnu11 -O1 -w -fPIC -I"$here/lib" -I"$here/include" -I"$here" -iquote "$here/pmpi_glue" -c "$1" -o "$work/wrong.o" &&
		$MPICC -shared -o "$work/door.so" "${objects[@]}" "$work/wrong.o" "$build/.libs/libcommon.a" $libs -lpthread -ldl -lm \
			-Wl,--version-script="$here/pmpi_glue/pmpi.map"
}

run() # name, [VARIABLE=VALUE]...
{
	local name=$1
	shift
	rm -f "$work/$name".*
	env CORALE_MPI_AFTER=0 "$@" timeout -k 5 40 "$MPIRUN" -n 3 "$build/test/pmpi/pmpi_wrong" "$work/$name" host >"$work/log" 2>&1 </dev/null
}

is_same() { cmp -s "$work/alone.0" "$work/with.0" && cmp -s "$work/alone.1" "$work/with.1" && cmp -s "$work/alone.2" "$work/with.2"; }

hunt() { ! { run with LD_PRELOAD="$work/door.so" CORALE_MPI=host && is_same; }; }
reason() { echo "the results differ"; }

run alone || die "the program fails without the door"
build "$here/pmpi_glue/coll_wrong.c" && ! hunt || die "the program fails without a mutant: $(cat "$work/log")"

for row in $(awk -F '[(,]' '/^COLLECTIVE/ { row = $2 } /RUN_AS/ { print row }' "$here/pmpi_glue/collectives.def"); do
	mutant "no row $row" pmpi_glue/coll_wrong.c "s/const struct coll_kind \*rule = coll_kind(call);/& if (call->function == PMPI_$row) return 0;/"
done
mutant "no counts are looked at" pmpi_glue/coll_wrong.c 's/coll_count(call, side, i) < 0 || //'
mutant "only the first count is looked at" pmpi_glue/coll_wrong.c 's/const int n = rule->form == SIDE_ARRAYS ? size : 1;/const int n = 1;/'
mutant "arrays may be NULL" pmpi_glue/coll_wrong.c 's/(rule->form == SIDE_ARRAYS \&\& (!side->counts || !side->displs)) ||//'
mutant "displacements may be NULL" pmpi_glue/coll_wrong.c 's/(!side->counts || !side->displs)/!side->counts/'
mutant "a type may be null" pmpi_glue/coll_wrong.c 's/side->type == MPI_DATATYPE_NULL ||/0 ||/'
mutant "types need no commit" pmpi_glue/coll_wrong.c 's/return !pmpi_type_is_named(type) \&\&/return 0 \&\&/'
mutant "MPI_IN_PLACE is right everywhere" pmpi_glue/coll_wrong.c 's/return !(rule->in_place & here);/return 0;/'
mutant "MPI_IN_PLACE is wrong everywhere" pmpi_glue/coll_wrong.c 's/return !(rule->in_place & here);/return 1;/'
mutant "sides are looked at everywhere" pmpi_glue/coll_wrong.c 's/if (!(rule->at & here))/if (0)/'
mutant "no root is wrong" pmpi_glue/coll_wrong.c 's/(rule->is_rooted \&\& (call->root < 0/(0 \&\& (call->root < 0/'
mutant "a root may be too large" pmpi_glue/coll_wrong.c 's/ || call->root >= comm->size//'
mutant "a reduce_scatter's counts are not looked at" pmpi_glue/coll_wrong.c 's/ || has_wrong_counts(call, comm->size) ||/ ||/'
mutant "both sides may be one memory" pmpi_glue/coll_wrong.c 's/((rule->one_memory & this_mpi) \&\&/(0 \&\&/'
mutant "an all_to_all's own lengths may differ" pmpi_glue/coll_wrong.c 's/return has_two_lengths(call, rank) ||/return/'
mutant "the root is taken for a leaf" pmpi_glue/coll_wrong.c 's/? COLL_AT_ROOT$/? COLL_AT_LEAVES/'
[[ $MPIRUN != *mpich* ]] || mutant "NULL is a buffer" pmpi_glue/coll_wrong.c 's/ || is_null(call, side, i)//'
mutants_end
