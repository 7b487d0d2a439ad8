/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX as a list of what was asked of it, so that tests can play the peers of lib/net/ucx/ucx_*.c without a network. A program that
 * links this does not link UCX. One thread.
 */
#ifndef FAKE_UCX_H
#define FAKE_UCX_H

#include "net/ucx/ucx_worker.h"

enum { FAKE_PAYLOAD_BYTES = 64 };

/* An active message that the library sent. */
struct fake_sent {
	struct ucx_wire wire;
	size_t bytes;
	unsigned char payload[FAKE_PAYLOAD_BYTES]; /* its beginning */
};

/* Forgets messages sent; at_once: later sends are complete when they return. */
void fake_ucx_reset(int at_once);
/* Only how later sends complete. */
void fake_ucx_send_at_once(int at_once);
/* Reads of remote memory end by progress, or not before they are held no more or their endpoint is closed; how many are under way. */
void fake_ucx_hold_reads(int held);
unsigned fake_ucx_reads(void);
/* Memory was unmapped while a read was under way. */
extern int fake_ucx_unmapped_early;
/* Messages sent since the reset, and the one of a number below that. Only the last 64 are kept. */
unsigned fake_ucx_count(void);
const struct fake_sent *fake_ucx_sent(unsigned number);

/* Hands a copy of a message to ucx_message_arrive as UCX does: attr is 0 or a UCP_AM_RECV_ATTR_FLAG_*. Under the lock. */
ucs_status_t fake_ucx_deliver(struct ucx_worker *w, const struct ucx_wire *wire, size_t header_bytes,
			      const void *data, size_t bytes, uint64_t attr);
/* Completes a receive that waits for a tag with as many bytes; 0 if there is none. Tag 0: any. Under the lock. */
int fake_ucx_deliver_tag(uint64_t tag, size_t bytes);

/* Ends what is pending, as a worker does that is destroyed. */
void fake_ucx_cancel_all(void);

/* What UCX prints of its context. */
extern const char *fake_ucx_info;
/* ... and of an endpoint. */
extern const char *fake_ucx_lanes;
/* UCX's version is 1.this. */
extern unsigned fake_ucx_minor;
/* 1 if a request that is not complete refers to the buffer. */
int fake_ucx_holds(const void *buf);
/* Payloads that the library keeps. */
unsigned fake_ucx_kept(void);

#endif
