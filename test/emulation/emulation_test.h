/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of emulation_test: the number of faults, -1 if kernels did not end. */
#ifndef EMULATION_TEST_H
#define EMULATION_TEST_H

#include <stdint.h>

extern uint64_t test_seed;
extern int test_thin; /* few and small, for the sanitizers */

int test_printed(void);
int test_broadcasts(void);
int test_broadcasts_in_slots(void);
int test_scratch(void);
int test_after_copies(void);
int test_premultiplied(void);
int test_uneven_sums(void);

int test_messages(void);
int test_messages_registered(void);
int test_messages_torn(void);
int test_lines_torn(void);
int test_messages_in_channels(void);
int test_long_messages(void);
int test_read_messages(void);
int test_read_messages_late(void);
int test_read_messages_refused(void);
int test_late_messages(void);
int test_pairs_in_turn(void);

int test_late_receiver(void);
int test_rooms(void);
int test_any_order(void);
int test_slots_in_use(void);
int test_one_end(void);
int test_fewer_bytes(void);
int test_other_lines(void);

int test_lowered(void);
int test_lowered_by_words(void);
int test_lowered_counts(void);
int test_lowered_in_turn(void);
int test_lowered_rooted(void);
int test_lowered_many_messages(void);

struct world_params;

enum { REMOTE_WAYS = 2 /* each group of nodes with slots in pinned memory, and with slots in slabs */ };
/* Nodes of the i-th world of several: whose ranks, and whether slots between them lie in a slab; 0: there are no more. */
int remote_nodes(int i, struct world_params *params);
/* Whether it is one of the first nodes, or of those that the seed draws. */
int remote_is_drawn(int i);
int test_remote_lowered(void);
int test_remote_messages(void);
int test_remote_in_turn(void);
int test_remote_many(void);
int test_remote_mismatch(void);
int test_remote_absent(void);
int test_remote_replay(void);
int test_remote_other_message(void);
int test_remote_one_end(void);

int test_host_turns(void);
int test_host_groups(void);

int test_mismatch(void);
int test_other_message(void);
int test_absent(void);
int test_replay(void);
int test_abort(void);

int test_hold_mismatch(void);
int test_hold_absent(void);
int test_hold_abort(void);
int test_quit(void);

int test_notes(void);

int test_any_stream(void);
int test_new_streams(void);
int test_hold_followed(void);

int test_old_headers(void);

int test_probes(void);
int test_pieces(void);

int test_zero_copy(void);
int test_read_failures(void);
int test_read_stops(void);
int test_zero_copy_edges(void);
int test_zero_copy_edges_late(void);
int test_zero_copy_late(void);
int test_zero_copy_refused(void);
int test_zero_copy_failures(void);
int test_zero_copy_replays(void);
int test_read_replays(void);
int test_alone(void);
int test_messages_alone(void);
int test_streams_alone(void);

#endif
