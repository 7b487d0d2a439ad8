/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of connections, for tests of the adapter by verbs. */
#ifndef FAKE_VERBS_ENDS_H
#define FAKE_VERBS_ENDS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum { BYTES = 1 << 20, DEADLINE_MS = 20000, IMMEDIATE = 0x1234, GRH_BYTES = 40 };

/* A queue pair with its completion queue, and memory: the first half for what it sends, the second for what it receives. */
struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char *memory;
	int owns_memory;
};

/* What the other end must know. */
struct address {
	uint16_t lid;
	uint32_t number, key;
	uint64_t memory;
};

/* An end with memory of its own, or with this (2 * BYTES), registered with `access` beside the usual rights. */
void open_end(struct end *e, enum ibv_qp_type type);
void open_end_at(struct end *e, enum ibv_qp_type type, unsigned char *memory, int access);
void close_end(struct end *e);

struct address address_of(const struct end *e);
void connect_to(struct end *e, struct address peer);

/* Requests on the first half of an end's memory, at the second half of the peer's; a receive into the second half. */
void post(struct end *e, enum ibv_wr_opcode opcode, struct address peer, size_t offset, size_t bytes);
void post_at(struct end *e, enum ibv_wr_opcode opcode, struct address peer, size_t offset, size_t bytes,
	     size_t at);
void post_receive(struct end *e, size_t bytes);

/* The next completion; a test fails where none comes. */
struct ibv_wc next(struct end *e);
void expect(struct end *e, enum ibv_wc_status status, enum ibv_wc_opcode opcode);

/* Two ends of one process, connected; the first one's memory to send is filled with sevens. */
void open_pair(struct end *a, struct end *b);
void close_pair(struct end *a, struct end *b);

/* Between a test's processes. */
void tell(int socket);
void await(int socket);
struct address exchange(const struct end *e, int socket); /* of the other process; tells it this one's */

#endif
