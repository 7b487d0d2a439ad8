/*
 * The bootstrap over TCP: a star at the listener of the process that made the id.
 *
 * Every process has at most one listening socket and one thread for it, which are started on first need. The thread relays the
 * all-gathers of all groups that meet at this process. The maker of an id need not be one of the group's ranks, but its process
 * must live until the group's bootstraps are closed. Ranks of the maker's own process use the loopback connection as all others do.
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

#include "boot.h"

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

#endif
