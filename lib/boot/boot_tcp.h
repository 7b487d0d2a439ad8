/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap over TCP: a star at the listener of the process that made the id, from which ranks of large groups pass on what all get.
 *
 * Every process has at most one listening socket and one thread for it, which are started on first need. The thread relays the
 * all-gathers of all groups that meet at this process. The maker of an id need not be one of the group's ranks, but its process
 * must live until the group's bootstraps are closed. Ranks of the maker's own process use the loopback connection as all others do.
 *
 * What n ranks cost, for an all-gather of b bytes each (a barrier: b = 0):
 *   connections  one of each rank to the maker's process, n descriptors there, until the bootstrap rests or is closed. Above 64 ranks one more of
 *                each rank but the first 16, to rank (r / 16 - 1): at most 16 more descriptors a rank
 *   steps        up to 64 ranks 2; above, 1 + the levels of the tree of 16 children a rank: 3 for 272 ranks, 4 for 4,368, 5 for 69,904
 *   bytes        the maker's process receives n b, and sends n n b up to 64 ranks, 16 n b above. A rank sends b, receives n b, and above 64 ranks
 *                sends 16 n b to its children
 *   memory       n b each in the maker's process, a rank and its listener; 100 bytes a rank for the table in each rank
 * The tree carries what all get and nothing else: who is there, who is missing and who has failed goes over the star. A rank whose source in the tree
 * dies, is stopped or refuses asks the maker's process, which sends to it from then on.
 *
 * What a rank sees when something is wrong (each with a line that names ranks, processes and hosts):
 *   another library's id, a damaged id, an argument out of range     CORALE_EINVAL
 *   another version of the protocol, more than 65,536 ranks          CORALE_ENOTSUP
 *   a wrong key                                                      CORALE_EINVAL
 *   another size than the other ranks', a rank twice, parts of other sizes: on all ranks of the group CORALE_EMISMATCH
 *   a stale id: its maker's process has ended, or its group has      CORALE_EPEER
 *   a rank that died, closed or aborted while others wait for it     CORALE_EPEER, on all others
 *   ranks that did not come within the timeout                       CORALE_ETIMEDOUT, named; after 10 s a WARN line names them too
 */
#ifndef BOOT_TCP_H
#define BOOT_TCP_H

#include <stddef.h>
#include <stdint.h>

/*
 * Where ranks come from: an all-gather that can be polled, and given up, and children of some of the ranks.
 *
 * A struct boot is one rank's end of one bootstrap. Its functions may be called by any thread, but by one at a time. Errors are logged once where they are found; a bootstrap that has
 * failed answers every later start and poll with the same code. close frees it, whatever happened.
 */

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

enum { BOOT_ID_BYTES = 128, BOOT_MAX_RANKS = 65536 };

struct boot_options {
	/* Interfaces for this process's listener, in NCCL_SOCKET_IFNAME's grammar: prefixes separated by commas, a leading "^"
	 * excludes, a leading "=" gives exact names. NULL: ib*, then others, then docker*, then lo. */
	const char *ifname;
	int family; /* of addresses. 0: any, 4 or 6 */
	/* NCCL_COMM_ID, host:port or [v6]:port: where rank 0 listens. NULL: none. Only boot_id_create reads it. */
	const char *address;
	/* For connecting, and anew for each all-gather from its start on. <= 0: 1,800 s */
	double timeout_s;
};

/*
 * Makes an id for one group. Its 128 bytes contain no pointer and may be zero; they are copied to the ranks by value, and secretly: who
 * knows them can take a rank's place. Starts this process's listener if it does not run (the first caller's ifname and family
 * count). With address the id is the same in every process that names the same text: no listener is started here, and the key is no secret.
 * o may be NULL.
 */
int boot_id_create(const struct boot_options *o, unsigned char id[BOOT_ID_BYTES]);

/*
 * Opens rank's end of the group of id: returns at once; connecting goes on in poll, and the first all-gather may be started at once.
 * An id serves one group; with an address, and for children, another one when all ranks of the last one have come. A forked child may open bootstraps of its own, but not
 * use its parent's. o is copied; NULL: all defaults.
 */
int boot_tcp_open(const unsigned char id[BOOT_ID_BYTES], int rank, int size, const struct boot_options *o,
		  struct boot **out);

/* For a rank that fails before it opens its end: tells the ranks of id, which fail too, with why. Takes a second at most. A failed open has done so. */
void boot_tcp_tell(const unsigned char id[BOOT_ID_BYTES], int rank, int size, const char *why);

#endif
