/* SPDX-License-Identifier: BSD-3-Clause */
/* Matches arriving messages with posted receives, and answers the sender. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "late.h"
#include "memory.h"
#include "queue_pair.h"

/* A message that no receive was there for. */
struct message {
	struct fake_node node;
	struct fake_frame frame;
	unsigned char *data;
};

static struct fake_list *receives_of(struct fake_qp *q)
{
	return q->qp.srq ? &((struct fake_srq *)q->qp.srq)->receives : &q->receives;
}

/* Copies a payload to where a receive wants it. */
static enum ibv_wc_status copy_to(const struct fake_receive *r, size_t offset, const unsigned char *data,
				  size_t bytes)
{
	struct iovec places[FAKE_MAX_SGE];
	size_t room = 0;
	for (int i = 0; i < r->to.count; i++)
		room += r->to.at[i].length;
	if (offset + bytes > room)
		return IBV_WC_LOC_LEN_ERR;
	const int count = fake_memory_places(&r->to, offset, bytes, IBV_ACCESS_LOCAL_WRITE, places);
	for (int i = 0; i < count; i++) {
		memcpy(places[i].iov_base, data, places[i].iov_len);
		data += places[i].iov_len;
	}
	return count < 0 ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

static void deliver(struct fake_qp *q, struct fake_receive *r, const struct fake_frame *frame,
		    const unsigned char *data)
{
	const int is_datagram = frame->kind == FAKE_DATAGRAM, is_write = frame->kind == FAKE_WRITE;
	const uint32_t offset = is_datagram ? FAKE_GRH_BYTES : 0;
	const struct ibv_wc wc = { .wr_id = r->id,
				   .status =
				       is_write ? IBV_WC_SUCCESS : copy_to(r, offset, data, frame->bytes),
				   .opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
				   .byte_len = (uint32_t)frame->bytes + offset,
				   .imm_data = frame->immediate,
				   .qp_num = q->qp.qp_num,
				   .src_qp = frame->from,
				   .slid = frame->source,
				   .wc_flags = frame->has_immediate ? IBV_WC_WITH_IMM : 0 };
	fake_late_receive();
	fake_complete(q->qp.recv_cq, &wc);
	if (!is_datagram)
		fake_acknowledge(frame,
				 wc.status == IBV_WC_SUCCESS ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR);
	free(r);
}

static void deliver_waiting(struct fake_qp *q)
{
	while (q->messages.first && receives_of(q)->first) {
		struct message *m = fake_take(&q->messages);
		deliver(q, fake_take(receives_of(q)), &m->frame, m->data);
		free(m->data);
		free(m);
	}
}

/* A datagram that nobody waits for is lost; a message waits, as a sender that tries again without end would. */
void fake_receive(struct fake_qp *q, const struct fake_frame *frame, unsigned char *data)
{
	struct message *m = NULL;
	if (frame->kind != FAKE_DATAGRAM || receives_of(q)->first)
		m = calloc(1, sizeof(*m));
	if (!m) {
		free(data);
		return;
	}
	m->frame = *frame;
	m->data = data;
	if (frame->kind != FAKE_DATAGRAM && !receives_of(q)->first)
		fake_acknowledge(frame, fake_not_ready);
	fake_append(&q->messages, m);
	deliver_waiting(q);
}

void fake_receive_drop(struct fake_qp *q)
{
	for (struct message *m; (m = fake_take(&q->messages));) {
		free(m->data);
		free(m);
	}
}

static int add(struct fake_list *receives, const struct ibv_recv_wr *wr)
{
	struct fake_receive *r = wr->num_sge <= FAKE_MAX_SGE ? calloc(1, sizeof(*r)) : NULL;
	if (!r)
		return ENOMEM;
	r->id = wr->wr_id;
	r->to.count = wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++)
		r->to.at[i] = wr->sg_list[i];
	fake_append(receives, r);
	return 0;
}

static int add_all(struct fake_list *receives, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int ret = 0;
	for (; wr && !ret; wr = wr->next)
		if ((ret = add(receives, wr)))
			*bad = wr;
	return ret;
}

int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	fake_lock();
	const int ret = add_all(&q->receives, wr, bad);
	deliver_waiting(q);
	fake_unlock();
	return ret;
}

int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	fake_lock();
	const int ret = add_all(&((struct fake_srq *)srq)->receives, wr, bad);
	for (struct fake_qp *q = fake_qp_first(); q; q = q->next)
		if (q->qp.srq == srq)
			deliver_waiting(q);
	fake_unlock();
	return ret;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct fake_srq *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->srq = (struct ibv_srq){ .context = pd->context, .srq_context = init->srq_context, .pd = pd };
	return &s->srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct fake_srq *s = (struct fake_srq *)srq;
	for (void *r; (r = fake_take(&s->receives));)
		free(r);
	free(s);
	return 0;
}
