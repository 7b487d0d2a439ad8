/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What carries frames between the adapters of processes: a Unix stream socket for each direction of each pair, and one thread a
 * process that reads them. A process is addressed by the local identifier (lid) of its adapter's port. Frames from one process to another keep their order.
 */
#ifndef FAKE_VERBS_WIRE_H
#define FAKE_VERBS_WIRE_H

#include <infiniband/verbs.h>
#include <sys/uio.h>

enum { FAKE_MAX_SGE = 16 };

enum fake_kind { FAKE_SEND, FAKE_WRITE, FAKE_DATAGRAM, FAKE_READ_DATA, FAKE_READ, FAKE_ACK };

/* The first four kinds are followed by `bytes` bytes of payload; a READ asks for as many. */
struct fake_frame {
	uint8_t kind, has_immediate;
	uint16_t source; /* lid of the process that sent the frame */
	uint32_t from, to; /* numbers of queue pairs */
	uint32_t immediate, key, status;
	uint64_t sequence, address, bytes;
	uint64_t copied; /* of a WRITE: so many bytes before `address` a copier has written already */
};

/* Registered memory that holds a payload. */
struct fake_segments {
	int count;
	struct ibv_sge at[FAKE_MAX_SGE];
};

/* Opens the adapter; the lid is then fixed until it is closed. An errno, or 0. */
int fake_wire_open(void);
void fake_wire_close(void);
uint16_t fake_wire_lid(void);

/* Under the lock: ends all connections, for good. */
void fake_wire_die(void);

/*
 * The lock of all of the adapter. fake_unlock first sends what fake_wire_send has queued: as many bytes as the sockets take;
 * the thread sends the rest.
 */
void fake_lock(void);
void fake_unlock(void);

/* Queues a frame whose payload is `inlined`, which is copied, or else in `segments`, which are read when the socket takes them. Both NULL: no payload. */
int fake_wire_send(uint16_t lid, const struct fake_frame *frame, const void *inlined,
		   const struct fake_segments *segments);

/*
 * Of what queue pair `from` has queued, takes back what the socket has not begun to take. After it nothing is read from the
 * segments of the rest either.
 */
void fake_wire_cancel(uint16_t lid, uint32_t from);

/*
 * Of the queue pairs, called under the lock by whoever sends or reads. Where a payload goes, from `offset` on: a number of
 * iovecs (of FAKE_MAX_SGE), 0: nowhere, so it is dropped. A frame is there, with its payload in `data` (malloc'ed; becomes the callee's) where none of
 * its bytes was placed. A process is gone.
 */
int fake_arrival_place(const struct fake_frame *frame, size_t offset, struct iovec *places);
void fake_arrival(const struct fake_frame *frame, unsigned char *data, int placed);
void fake_process_lost(uint16_t lid);

#endif
