/* SPDX-License-Identifier: BSD-3-Clause */
/* How several codelets cut their launches: packets, slots, parts. Pure. */
#ifndef CUT_H
#define CUT_H

#include "launch.h"

/* 1 if an address or a size is no multiple of 4. */
int launch_is_unaligned(const struct launch *launch);

/* Bytes of one piece of a block or vector: a sender's packet area / exchanges, in whole turns of the grid where threads take turns, times
 * parts. words: packets are words. 0: there is too little room. */
uint64_t packets_piece(uint64_t area_bytes, int words, int exchanges, uint64_t parts, int max_blocks);
/* Pieces of a block or vector by that: 1 where there is room for all. */
uint64_t packets_pieces(uint64_t bytes, uint64_t most);
/* Calls beyond the packets' room go in pieces of about one size. parts: of the vector; 1: all to all. */
void packets_cut_pieces(struct launch *launch, int words, int exchanges, uint64_t parts);
/* 16-byte vectors that so many bytes take, flags included. */
uint64_t packets_vectors(uint64_t bytes, int words);
/* One vector a thread while blocks and threads suffice. Up to `small` vectors use blocks of one warp, which fit beside a kernel that fills the GPU. */
struct grid packets_grid(const struct gpu_machine *machine, uint64_t vectors, uint64_t small);
/* Threads of a block whose threads take turns. */
int packets_long_threads(const struct gpu_machine *machine);
/* 1 if the kernels for few ranks run it. */
int packets_have_few_ranks(const struct launch *launch);

/* A vector in parts, by two exchanges; else blocks, by one. */
int slots_have_parts(corale_coll coll);
/* Only bulk takes these calls through slots, so with any number of blocks: others are fifo's or lowered where there are more than LAUNCH_BULK_BLOCKS. */
int slots_are_of_bulk(corale_coll coll);
/* Ranks that own a part, all but a root; 1: all data are blocks. */
uint64_t slots_owners(corale_coll coll, int ranks);
/* As struct codelet has it. */
double slots_sent(const struct row *row, const struct gpu_machine *machine, uint64_t bytes);
/* Bytes of a slot where so much room is cut for so many channels of so many queues; at most so many bytes. */
uint64_t slots_bytes(uint64_t room, int channels, int queues, uint32_t depth, uint64_t most);
/* The room of one sender: large calls use scratch, if there is any, because longer runs to one peer are faster. */
uint64_t slots_room(const struct launch *launch);
/* Of teams of warps: a call goes in so many pieces at least, and so many messages fit the room, where neither makes them too short. Then messages and how many are in flight. */
uint64_t slots_team_message(uint64_t bytes, uint64_t pieces, uint64_t room, uint64_t in_flight);
void slots_cut_teams(struct launch *launch, uint64_t room, uint64_t most);
/* A message of a block's one channel: of one exchange or two. */
uint64_t slots_message(const struct launch *launch, int exchanges, uint64_t most);
/* The rate of messages that are only moved. */
struct codelet_rate slots_rate_of_moves(int ranks);

/* For a codelet's zero_copy: 1 where that takes less time than slots. Its time. */
int zero_copy_pays(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);
double zero_copy_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);

/* How fast a block is that loads data once and stores them here: where ranks have a block of their own to copy, slower. */
enum rates_block zero_copy_block(corale_coll coll);

/* Bytes to a peer: of one vector or block; of an owner's parts. */
uint64_t launch_block(const struct launch *launch);
uint64_t launch_parts(const struct launch *launch);

#endif
