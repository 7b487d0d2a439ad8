/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of the adapter: states, attributes, and what their end leaves. */
#include "queue_pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"

enum { MOST_NUMBERS = 1 << 24 };

static struct fake_qp *pairs;

struct fake_qp *fake_qp_find(uint32_t number)
{
	struct fake_qp *q = pairs;
	while (q && q->qp.qp_num != number)
		q = q->next;
	return q;
}

struct fake_qp *fake_qp_first(void)
{
	return pairs;
}

/* Begins elsewhere in each process, so that messages to a process that is gone are not taken by one that has its lid. */
static uint32_t next_number(void)
{
	static uint32_t number;
	if (!number)
		number = (uint32_t)getpid() * 2654435761u;
	do
		number++;
	while (number % MOST_NUMBERS < 2 || fake_qp_find(number % MOST_NUMBERS));
	return number % MOST_NUMBERS;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_qp *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	if (fake_faults_is_dead()) {
		free(q);
		errno = EIO;
		return NULL;
	}
	if (init->cap.max_inline_data > FAKE_MAX_INLINE || init->cap.max_send_sge > FAKE_MAX_SGE ||
	    init->cap.max_recv_sge > FAKE_MAX_SGE ||
	    (init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UD)) {
		free(q);
		errno = EINVAL;
		return NULL;
	}
	q->init = *init;
	q->qp = (struct ibv_qp){ .context = pd->context,
				 .qp_context = init->qp_context,
				 .pd = pd,
				 .send_cq = init->send_cq,
				 .recv_cq = init->recv_cq,
				 .srq = init->srq,
				 .qp_type = init->qp_type,
				 .state = IBV_QPS_RESET };
	fake_lock();
	q->qp.qp_num = next_number();
	q->next = pairs;
	pairs = q;
	fake_unlock();
	return &q->qp;
}

/* Also what the peer has answered behind something that it has not: an adapter's peer would not have begun with it. */
static void flush_work(struct fake_qp *q, enum ibv_wc_status status)
{
	int is_behind = 0;
	for (struct fake_node *n = q->work.first; n; n = n->next) {
		struct fake_work *w = (struct fake_work *)n;
		if (w->is_done && !is_behind)
			continue;
		w->is_done = 1;
		w->status = is_behind || status == IBV_WC_SUCCESS ? IBV_WC_WR_FLUSH_ERR : status;
		is_behind = 1;
	}
	fake_work_reap(q);
}

static void flush_receives(struct fake_qp *q)
{
	for (struct fake_receive *r; (r = fake_take(&q->receives));) {
		const struct ibv_wc wc = { .wr_id = r->id,
					   .status = IBV_WC_WR_FLUSH_ERR,
					   .qp_num = q->qp.qp_num };
		fake_complete(q->qp.recv_cq, &wc);
		free(r);
	}
}

void fake_qp_fail(struct fake_qp *q, enum ibv_wc_status status)
{
	const int had_failed = q->has_failed;
	q->has_failed = 1;
	if (q->qp.qp_type == IBV_QPT_RC)
		fake_wire_cancel(q->attr.ah_attr.dlid, q->qp.qp_num);
	flush_work(q, status);
	flush_receives(q);
	fake_receive_drop(q);
	if (q->qp.srq && !had_failed)
		fake_event_last_receive(q);
}

void fake_process_lost(uint16_t lid)
{
	for (struct fake_qp *q = pairs; q; q = q->next)
		if (q->qp.qp_type == IBV_QPT_RC && q->attr.ah_attr.dlid == lid && q->work.first)
			fake_qp_fail(q, IBV_WC_RETRY_EXC_ERR);
}

static int waits_too_long(const struct fake_qp *q, uint64_t now)
{
	for (const struct fake_node *n = q->work.first; n; n = n->next) {
		const struct fake_work *w = (const struct fake_work *)n;
		if (!w->is_done && !w->is_awaited && now - w->posted_ms > (uint64_t)fake_faults.retries_ms)
			return 1;
	}
	return 0;
}

void fake_qp_tick(void)
{
	const uint64_t now = fake_now_ms();
	for (struct fake_qp *q = pairs; q && fake_faults.retries_ms; q = q->next)
		if (waits_too_long(q, now))
			fake_qp_fail(q, IBV_WC_RETRY_EXC_ERR);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	fake_lock();
	if (mask & IBV_QP_DEST_QPN)
		q->attr.dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_AV)
		q->attr.ah_attr = attr->ah_attr;
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		fake_qp_fail(q, IBV_WC_SUCCESS);
	fake_unlock();
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	fake_lock();
	*attr = q->attr;
	*init = q->init;
	attr->qp_state = attr->cur_qp_state = q->has_failed ? IBV_QPS_ERR : qp->state;
	attr->cap = q->init.cap;
	fake_unlock();
	return 0;
}

static void forget(struct fake_qp *q)
{
	struct fake_qp **at = &pairs;
	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	fake_lock();
	forget(q);
	if (qp->qp_type == IBV_QPT_RC)
		fake_wire_cancel(q->attr.ah_attr.dlid, qp->qp_num);
	fake_receive_drop(q);
	for (void *item; (item = fake_take(&q->work)) || (item = fake_take(&q->receives));)
		free(item);
	fake_unlock();
	free(q);
	return 0;
}
