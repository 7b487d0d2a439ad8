/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns posted work requests into frames, and completes them when their answers have come. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "faults.h"
#include "memory.h"
#include "queue_pair.h"

struct fake_work *fake_work_find(const struct fake_qp *q, uint64_t sequence)
{
	struct fake_node *n = q->work.first;
	while (n && ((struct fake_work *)n)->sequence != sequence)
		n = n->next;
	return (struct fake_work *)n;
}

static enum ibv_wc_opcode completed_as(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	default:
		return IBV_WC_SEND;
	}
}

void fake_work_reap(struct fake_qp *q)
{
	for (struct fake_work *w; (w = (struct fake_work *)q->work.first) && w->is_done;) {
		const struct ibv_wc wc = { .wr_id = w->id,
					   .status = w->status,
					   .opcode = completed_as(w->opcode),
					   .byte_len = w->bytes,
					   .qp_num = q->qp.qp_num };
		if (w->is_signaled || w->status != IBV_WC_SUCCESS)
			fake_complete(q->qp.send_cq, &wc);
		free(fake_take(&q->work));
	}
}

static int has_immediate(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* A frame's kind, or -1: this adapter has no such operation. */
static int kind_of(const struct fake_qp *q, enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return q->qp.qp_type == IBV_QPT_UD ? FAKE_DATAGRAM : FAKE_SEND;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return q->qp.qp_type == IBV_QPT_RC ? FAKE_WRITE : -1;
	case IBV_WR_RDMA_READ:
		return q->qp.qp_type == IBV_QPT_RC ? FAKE_READ : -1;
	default:
		return -1;
	}
}

static size_t bytes_of(const struct ibv_send_wr *wr)
{
	size_t bytes = 0;
	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

static int is_valid(const struct fake_qp *q, const struct ibv_send_wr *wr)
{
	return kind_of(q, wr->opcode) >= 0 && wr->num_sge >= 0 && wr->num_sge <= FAKE_MAX_SGE &&
	       (!(wr->send_flags & IBV_SEND_INLINE) || bytes_of(wr) <= FAKE_MAX_INLINE);
}

/* The local memory of a request is registered, a READ's for writing. */
static int is_registered(const struct ibv_send_wr *wr, const struct fake_segments *segments)
{
	struct iovec places[FAKE_MAX_SGE];
	return wr->send_flags & IBV_SEND_INLINE ||
	       fake_memory_places(segments, 0, bytes_of(wr),
				  wr->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0, places) >= 0;
}

static struct fake_work *add_work(struct fake_qp *q, const struct ibv_send_wr *wr)
{
	struct fake_work *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->id = wr->wr_id;
	w->sequence = ++q->last_sequence;
	w->opcode = wr->opcode;
	w->is_signaled = q->init.sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	w->bytes = (uint32_t)bytes_of(wr);
	w->posted_ms = fake_faults_are_timed() ? fake_now_ms() : 0;
	w->to.count = wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++)
		w->to.at[i] = wr->sg_list[i];
	fake_append(&q->work, w);
	return w;
}

static size_t gather_inlined(const struct ibv_send_wr *wr, unsigned char *to)
{
	size_t bytes = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to + bytes, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		bytes += wr->sg_list[i].length;
	}
	return bytes;
}

static int send_frame(struct fake_qp *q, const struct ibv_send_wr *wr, const struct fake_work *w)
{
	const int is_datagram = q->qp.qp_type == IBV_QPT_UD, is_inlined = wr->send_flags & IBV_SEND_INLINE;
	unsigned char inlined[FAKE_MAX_INLINE];
	struct fake_frame frame = { .kind = (uint8_t)kind_of(q, wr->opcode),
				    .has_immediate = (uint8_t)has_immediate(wr->opcode),
				    .immediate = wr->imm_data,
				    .from = q->qp.qp_num,
				    .to = is_datagram ? wr->wr.ud.remote_qpn : q->attr.dest_qp_num,
				    .sequence = w->sequence,
				    .bytes = w->bytes };
	if (!is_datagram) {
		frame.key = wr->wr.rdma.rkey;
		frame.address = wr->wr.rdma.remote_addr;
	}
	if (is_inlined)
		gather_inlined(wr, inlined);
	return fake_wire_send(is_datagram ? fake_address_lid(wr->wr.ud.ah) : q->attr.ah_attr.dlid, &frame,
			      is_inlined ? inlined : NULL, is_inlined ? NULL : &w->to);
}

/* In the error state a request is flushed; memory that is not registered is an error of the queue pair. */
static int post(struct fake_qp *q, const struct ibv_send_wr *wr)
{
	struct fake_work *w;
	if (!is_valid(q, wr))
		return EINVAL;
	if (q->qp.qp_type == IBV_QPT_RC)
		fake_faults_count();
	if (!(w = add_work(q, wr)))
		return ENOMEM;
	if (q->has_failed || !is_registered(wr, &w->to)) {
		fake_qp_fail(q, q->has_failed ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
		return 0;
	}
	const int ret = send_frame(q, wr, w);
	if (q->qp.qp_type == IBV_QPT_UD) {
		w->is_done = 1;
		fake_work_reap(q);
	}
	return ret;
}

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int ret = 0;
	fake_lock();
	for (; wr && !ret; wr = wr->next)
		if ((ret = post((struct fake_qp *)qp, wr)))
			*bad = wr;
	fake_unlock();
	return ret;
}
