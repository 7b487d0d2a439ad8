/* SPDX-License-Identifier: BSD-3-Clause */
/* What a frame of another process does. */
#include <stdlib.h>

#include "late.h"
#include "memory.h"
#include "queue_pair.h"

static int can_receive(const struct fake_qp *q)
{
	return q && !q->has_failed && (q->qp.state == IBV_QPS_RTR || q->qp.state == IBV_QPS_RTS);
}

void fake_acknowledge(const struct fake_frame *frame, enum ibv_wc_status status)
{
	const struct fake_frame answer = { .kind = FAKE_ACK,
					   .from = frame->to,
					   .to = frame->from,
					   .status = status,
					   .sequence = frame->sequence };
	fake_wire_send(frame->source, &answer, NULL, NULL);
}

static int place_write(const struct fake_frame *frame, size_t offset, struct iovec *places)
{
	places[0].iov_len = frame->bytes - offset;
	places[0].iov_base = can_receive(fake_qp_find(frame->to))
				 ? fake_memory_at(frame->key, frame->address + offset, places[0].iov_len,
						  IBV_ACCESS_REMOTE_WRITE)
				 : NULL;
	return places[0].iov_base != NULL;
}

static int place_read_data(const struct fake_frame *frame, size_t offset, struct iovec *places)
{
	const struct fake_qp *q = fake_qp_find(frame->to);
	const struct fake_work *w = q ? fake_work_find(q, frame->sequence) : NULL;
	const int count =
	    w ? fake_memory_places(&w->to, offset, frame->bytes - offset, IBV_ACCESS_LOCAL_WRITE, places) : 0;
	return count < 0 ? 0 : count;
}

int fake_arrival_place(const struct fake_frame *frame, size_t offset, struct iovec *places)
{
	return frame->kind == FAKE_WRITE ? place_write(frame, offset, places)
					 : place_read_data(frame, offset, places);
}

static void answer_read(const struct fake_frame *frame)
{
	const struct fake_segments from = { 1, { { frame->address, (uint32_t)frame->bytes, frame->key } } };
	const struct fake_frame answer = { .kind = FAKE_READ_DATA,
					   .from = frame->to,
					   .to = frame->from,
					   .sequence = frame->sequence,
					   .bytes = frame->bytes };
	if (frame->bytes)
		fake_late_read(frame->key);
	if (!frame->bytes || fake_memory_at(frame->key, frame->address, frame->bytes, IBV_ACCESS_REMOTE_READ))
		fake_wire_send(frame->source, &answer, NULL, &from);
	else
		fake_acknowledge(frame, IBV_WC_REM_ACCESS_ERR);
}

static void finish_work(const struct fake_frame *frame, enum ibv_wc_status status)
{
	struct fake_qp *q = fake_qp_find(frame->to);
	struct fake_work *w = q ? fake_work_find(q, frame->sequence) : NULL;
	if (!w || w->is_done)
		return;
	if (status == fake_not_ready) {
		w->is_awaited = 1;
		return;
	}
	w->is_done = 1;
	w->status = status;
	if (status != IBV_WC_SUCCESS)
		fake_qp_fail(q, IBV_WC_SUCCESS);
	else
		fake_work_reap(q);
}

static void serve_late(struct fake_qp *q, const struct fake_frame *frame, unsigned char *data)
{
	if (!fake_late_write(frame, data))
		fake_acknowledge(frame, IBV_WC_REM_ACCESS_ERR);
	else if (frame->has_immediate)
		fake_receive(q, frame, NULL);
	else
		fake_acknowledge(frame, IBV_WC_SUCCESS);
}

/* A request for a queue pair; one that is not there does not answer, and its peer's retries end. */
static void serve(struct fake_qp *q, const struct fake_frame *frame, unsigned char *data, int placed)
{
	if (!can_receive(q)) {
		free(data);
		if (frame->kind != FAKE_DATAGRAM)
			fake_acknowledge(frame, IBV_WC_RETRY_EXC_ERR);
	} else if (frame->kind == FAKE_READ) {
		answer_read(frame);
	} else if (frame->copied && !fake_memory_at(frame->key, frame->address - frame->copied, frame->copied,
						    IBV_ACCESS_REMOTE_WRITE)) {
		free(data);
		fake_acknowledge(frame, IBV_WC_REM_ACCESS_ERR);
	} else if (frame->kind == FAKE_WRITE && data) {
		serve_late(q, frame, data);
	} else if (!placed) {
		fake_acknowledge(frame, IBV_WC_REM_ACCESS_ERR);
	} else if (frame->kind == FAKE_WRITE && !frame->has_immediate) {
		fake_acknowledge(frame, IBV_WC_SUCCESS);
	} else {
		fake_receive(q, frame, data);
	}
}

void fake_arrival(const struct fake_frame *frame, unsigned char *data, int placed)
{
	if (frame->kind == FAKE_ACK)
		finish_work(frame, (enum ibv_wc_status)frame->status);
	else if (frame->kind == FAKE_READ_DATA)
		finish_work(frame, placed ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
	else
		serve(fake_qp_find(frame->to), frame, data, placed);
}
