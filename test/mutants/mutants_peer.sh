#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Mutation test of messages by peer copies: each mutant breaks one line of pmpi_glue, and the random programs of test/pmpi/pmpi_peer.c must notice. Prints one line a mutant:
# killed or SURVIVED. Exit status 1 if one survived or cannot be made any more. Not a part of make check; some minutes.
# Usage: test/mutants/mutants_peer.sh [BUILD [WORD]]   a build directory with the door and test/pmpi/pmpi_peer; only the mutants whose name holds WORD
. "$(dirname "$0")/mutate.sh"
build=$(cd "${1:-build}" && pwd) || exit 2
only=$2
. "$here/test/run/launcher-env.sh"
export OMPI_MCA_btl_vader_single_copy_mechanism=none
MPICC=${MPICC:-mpicc} MPIRUN=${MPIRUN:-mpirun} RUNS=${TEST_RUNS:-12}
libs=$(sed -n 's/^dependency_libs=//p' "$build/libcorale_pmpi.la" | tr -d "'" | tr ' ' '\n' | grep '^-l' | tr '\n' ' ')

build() # source, file
{
	local f objects=()
	for f in $(find "$build" -path "*/.libs/libcorale_pmpi_la-*.o"); do
		case $f in */libcorale_pmpi_la-"$(basename "$2" .c)".o) ;; *) objects+=("$f") ;; esac
	done
	# shellcheck disable=SC2086 # words
	$MPICC -std=gnu11 -O1 -w -fPIC -I"$here/lib" -I"$here/include" -I"$here" -iquote "$here/pmpi_glue" -c "$1" -o "$work/mutant.o" &&
		$MPICC -shared -o "$work/libcorale_pmpi.so" "${objects[@]}" "$work/mutant.o" "$build/.libs/libcommon.a" $libs -lpthread -ldl -lm \
			-Wl,-soname,libcorale_pmpi.so -Wl,--version-script="$here/pmpi_glue/pmpi.map"
}

run() # ranks, program, arguments
{
	local ranks=$1 program=$2
	shift 2
	LD_LIBRARY_PATH="$work:$build/.libs" timeout -k 2 20 "$MPIRUN" -n "$ranks" "$build/test/pmpi/.libs/$program" "$@" >"$work/log" 2>&1 </dev/null
}

# The cases, and programs of all numbers of ranks, until one fails.
passes()
{
	local seed
	CORALE_MPI_PEER=yes CORALE_MPI_PEER_LEAST=4 run 2 pmpi_peer_cases || return 1
	FAKE_DEVICE_UNREACHED=1 CORALE_MPI_PEER=yes CORALE_MPI_PEER_EAGER=0 run 2 pmpi_peer_cases || return 1
	CORALE_MPI_PEER=yes CORALE_MPI_PEER_LEAST=4 CORALE_MPI_PEER_EAGER=0 run 2 pmpi_peer_threads || return 1
	for ((seed = 1; seed <= RUNS; seed++)); do
		run $((2 + seed % 3)) pmpi_peer $seed 10 || return 1
	done
}

hunt() { ! passes; }
reason() { grep -m 1 '^# ' "$work/log"; }

build "$here/pmpi_glue/peer_send.c" pmpi_glue/peer_send.c && passes || die "the programs fail without a mutant: $(cat "$work/log")"

mutant "a slot is free before it is pulled" pmpi_glue/peer_send.c 's/peer_slot_leave(w->slot)/peer_slot_drop(w->slot)/'
mutant "a send is complete when it is matched" pmpi_glue/peer_send.c 's/return slot->state == PEER_BUFFERED || slot->state == PEER_DONE;/return 1;/'
mutant "a short send waits for its match" pmpi_glue/peer_send.c 's/return w->m.mode == PMPI_STANDARD \&\& w->s.bytes <= pmpi_peer.eager;/return 0;/'
mutant "the request of a short send ends with its header" pmpi_glue/peer_send.c 's/w->inner != MPI_REQUEST_NULL \&\& pmpi_send_is_ready(w, w->inner)/w->inner != MPI_REQUEST_NULL/'
mutant "a message is copied when it is pulled, or has been" pmpi_glue/peer_send.c 's/if (is_cancelled || state == PEER_DONE || state == PEER_BUFFERED)/if (is_cancelled || state == PEER_BUFFERED)/; s/if (state == PEER_PULLING)/if (0)/; s/uint32_t state = PEER_POSTED;/uint32_t state = slot->state;/; s/return slot->state == PEER_BUFFERED || slot->state == PEER_DONE;/return slot->state == PEER_BUFFERED;/'
mutant "a type with gaps is read where it lies" pmpi_glue/peer_send.c 's/return s->layout->is_contiguous \&\& m->mode/return m->mode/'
mutant "a sender does not ask whether its memory is reached" pmpi_glue/peer_send.c 's/peer_reach_of(w->to, pmpi.rank) != PEER_REACHED/0/'
mutant "a header is no header" pmpi_glue/peer_pull.c 's/return bytes == PEER_HEADER ? owner : -1;/return -1;/'
mutant "a truncated message is no error" pmpi_glue/peer_pull.c 's/? MPI_ERR_TRUNCATE : 0/? 0 : 0/'
mutant "a status has the header's length" pmpi_glue/peer_recv.c 's/if (r->slot >= 0 || r->error == MPI_ERR_TRUNCATE)/if (0)/'
mutant "a receive of less than 3 bytes has no room for a header" pmpi_glue/peer_recv.c 's/const int is_little = .*;/const int is_little = 0;/'
mutant "a header is taken as data, too" pmpi_glue/peer_recv.c 's/if (r->slot < 0 \&\& !r->is_taken)/if (!r->is_taken)/'
mutant "a persistent receive stays taken" pmpi_glue/peer_recv.c 's/r->is_taken = r->error = 0;//'
mutant "a copy is complete when it has started" pmpi_glue/peer_pull.c 's/if (!copied)/if (0)/'
mutant "a call leaves copies behind" pmpi_glue/peer_pull.c 's/for (int turn = 0; pulling;/for (int turn = 0; 0;/'
mutant "a probe finds the newest message" pmpi_glue/peer_table.c 's/slot->sequence < oldest->sequence/slot->sequence > oldest->sequence/'
mutant "a probe finds messages of all communicators" pmpi_glue/peer_table.c 's/slot->comm == comm \&\&//'
mutant "a probe finds messages of all tags" pmpi_glue/peer_table.c 's/ \&\& slot->tag == tag//'
mutant "a probe does not know what is matched" pmpi_glue/peer_probe.c 's/\*flag = pmpi_peer_claim_matched(headers, status);//'
mutant "a message of MPI_Mprobe is probed again" pmpi_glue/peer_probe.c 's/->is_claimed = 1;/;/'
mutant "MPI_Waitany completes what is not ready" pmpi_glue/request.c 's/is_hidden = !pmpi_pending_is_ready(c->pending\[i\])/is_hidden = 0/'
mutant "MPI_Waitall does not wait until requests are ready" pmpi_glue/request.c 's/while (!are_ready(c))/while (0)/'
mutant "an exchange sends behind its receive" pmpi_glue/peer_exchange.c 's/out->is_copied/0/'
mutant "device memory of a copied message is given away before it is read" pmpi_glue/peer_send.c 's/	peer_slot_keep(number, part);/	peer_part_give(part);/'
mutant "an exchange that is refused leaves its receive behind" pmpi_glue/peer_exchange.c 's/if (ret \&\& r->request != MPI_REQUEST_NULL)/if (0)/'
mutant "freed memory stays mapped" pmpi_glue/peer_pull.c 's/	unmap_freed();/	(void)unmap_freed;/'
mutant "threads have no lock" pmpi_glue/request_table.c 's/pthread_mutex_[un]*lock(&lock);/(void)lock;/'
mutant "a thread waits inside MPI for its receive" pmpi_glue/request.c 's/	wait_ready(&c);/	if (pmpi.thread_level != MPI_THREAD_MULTIPLE) wait_ready(\&c);/'
echo "$killed killed, $survived survived"
[ $survived = 0 ]
