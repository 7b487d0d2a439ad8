/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where ranks come from: an all-gather that can be polled, and given up, and children of some of the ranks.
 *
 * A struct boot is one rank's end of one bootstrap. Its functions may be called by any thread, but by one at a time. Errors are logged once where they are found; a bootstrap that has
 * failed answers every later start and poll with the same code. close frees it, whatever happened.
 */
#ifndef BOOT_H
#define BOOT_H

#include <stddef.h>
#include <stdint.h>

/* One rank's end of one bootstrap. */
struct boot {
	int rank, size;
	int lost; /* the rank whose end has ended the bootstrap; -1: none, or another cause */
};

/*
 * Begins an all-gather: bytes bytes of each rank into out, by rank. All ranks give the same bytes, 0 is allowed. in is copied and may
 * be changed when start returns; out must stay until poll has returned something other than 0. All ranks begin their all-gathers in
 * the same order, one after the other: CORALE_EINVAL if one is under way, or if the ranks' parts together are too large (64 MiB).
 */
int boot_start(struct boot *b, const void *in, size_t bytes, void *out);
/* 1: the all-gather has ended (none was started: this rank is connected); 0: not yet; or a CORALE_E*. Sleeps some
 * milliseconds at most, so a caller may loop over it. */
int boot_poll(struct boot *b);
/*
 * Sets absent[r], of size bytes, where rank r had not come to the group at some time since since_ns (of wait_now_ns), and returns how many
 * that are. 0 also where it is not known yet: ask again after a poll. Of very many absent ranks some may be left out.
 */
int boot_absent(struct boot *b, int64_t since_ns, unsigned char *absent);
/* In place of a poll: ends the bootstrap with a code and text that the caller has logged, also on ranks that wait for this one. */
void boot_give_up(struct boot *b, int code, const char *text);
/*
 * A bootstrap of ranks[0 .. n), of which this rank is one; child rank i is ranks[i]. All members call it with the same arguments, without a
 * message of the parent, which may have failed but must have been connected (else CORALE_EINVAL). Children of equal ranks that exist at the
 * same time need different tags. The child outlives its parent.
 */
int boot_child(struct boot *b, const int *ranks, int n, uint64_t tag, struct boot **out);
/* No all-gather follows, only children: closes the connection of one that has one. */
void boot_rest(struct boot *b);
/* Frees b, also one that failed. Ranks that still wait for this one end with CORALE_EPEER. */
void boot_close(struct boot *b);

/* Starts an all-gather and polls until it has ended: 0 or a CORALE_E*. For callers that may block. */
int boot_allgather(struct boot *b, const void *in, size_t bytes, void *out);

#endif
