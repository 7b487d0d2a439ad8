/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs and what belongs to them: completion queues, receives, work that waits for its answer. All under the lock. */
#ifndef FAKE_VERBS_QUEUE_PAIR_H
#define FAKE_VERBS_QUEUE_PAIR_H

#include "list.h"
#include "wire.h"

enum { FAKE_GRH_BYTES = 40, FAKE_MAX_INLINE = 256 };

/* The status of an acknowledgement: no receive is posted yet, the message waits. */
static const enum ibv_wc_status fake_not_ready = IBV_WC_RNR_RETRY_EXC_ERR;

/* A receive that was posted. */
struct fake_receive {
	struct fake_node node;
	uint64_t id;
	struct fake_segments to;
};

/* A request that was posted, until it is complete. */
struct fake_work {
	struct fake_node node;
	uint64_t id, sequence;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status status;
	int is_signaled, is_done;
	int is_awaited; /* the peer has no receive for it yet */
	uint64_t posted_ms;
	uint32_t bytes;
	struct fake_segments to; /* of a READ */
};

struct fake_srq {
	struct ibv_srq srq;
	struct fake_list receives;
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_qp *next;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint64_t last_sequence;
	int has_failed; /* the error state; qp.state is what the program has set, as with real adapters */
	struct fake_list receives; /* without a shared receive queue */
	struct fake_list work; /* in order of posting, which is that of completion */
	struct fake_list messages; /* that came before a receive was posted for them */
};

/* ---- completion.c ---- */
void fake_complete(struct ibv_cq *cq, const struct ibv_wc *completion);
int fake_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *completions);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- device.c ---- */
void fake_event_last_receive(struct fake_qp *qp);
void fake_event_all(enum ibv_event_type type); /* of the device, or its port */

/* ---- queue_pair.c ---- */
struct fake_qp *fake_qp_find(uint32_t number);
struct fake_qp *fake_qp_first(void);

/* The error state: all work that is not done is flushed, the first of it with `status` where that is not IBV_WC_SUCCESS. */
void fake_qp_fail(struct fake_qp *qp, enum ibv_wc_status status);

/* Peers that have not answered for too long: their queue pairs fail. */
void fake_qp_tick(void);

/* ---- request.c ---- */
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
struct fake_work *fake_work_find(const struct fake_qp *qp, uint64_t sequence);

/* Completes the work at the head of the queue that is done. */
void fake_work_reap(struct fake_qp *qp);

/* ---- receive.c ---- */
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* Takes the frame of a message and its payload (NULL: it was placed by a WRITE) when a receive is there; acknowledges it then. */
void fake_receive(struct fake_qp *qp, const struct fake_frame *frame, unsigned char *data);
void fake_receive_drop(struct fake_qp *qp);

/* ---- arrival.c ---- */
void fake_acknowledge(const struct fake_frame *frame, enum ibv_wc_status status);

#endif
