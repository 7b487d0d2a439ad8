/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the two ends of a connection that tests of the adapter use. */
#define _GNU_SOURCE
#include <poll.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "fake_verbs_ends.h"

void open_end_at(struct end *e, enum ibv_qp_type type, unsigned char *memory, int access)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	assert_int_equal(count, 1);
	assert_string_equal(ibv_get_device_name(list[0]), "fake0");
	assert_non_null(e->context = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	e->pd = ibv_alloc_pd(e->context);
	e->channel = ibv_create_comp_channel(e->context);
	e->cq = ibv_create_cq(e->context, 64, e, e->channel, 0);
	struct ibv_srq_init_attr receives = { .attr = { .max_wr = 16, .max_sge = 1 } };
	e->srq = type == IBV_QPT_RC ? ibv_create_srq(e->pd, &receives) : NULL;
	struct ibv_qp_init_attr init = { .send_cq = e->cq,
					 .recv_cq = e->cq,
					 .srq = e->srq,
					 .cap = { 64, 16, 2, 1, 64 },
					 .qp_type = type,
					 .sq_sig_all = 1 };
	assert_non_null(e->qp = ibv_create_qp(e->pd, &init));
	e->owns_memory = !memory;
	assert_non_null(e->memory = memory ? memory : calloc(2, BYTES));
	e->mr =
	    ibv_reg_mr(e->pd, e->memory, (size_t)2 * BYTES,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | access);
	assert_non_null(e->mr);
}

void open_end(struct end *e, enum ibv_qp_type type)
{
	open_end_at(e, type, NULL, 0);
}

void close_end(struct end *e)
{
	ibv_destroy_qp(e->qp);
	if (e->srq)
		ibv_destroy_srq(e->srq);
	ibv_destroy_cq(e->cq);
	ibv_destroy_comp_channel(e->channel);
	ibv_dereg_mr(e->mr);
	ibv_dealloc_pd(e->pd);
	ibv_close_device(e->context);
	if (e->owns_memory)
		free(e->memory);
}

struct address address_of(const struct end *e)
{
	struct ibv_port_attr port;
	assert_int_equal(ibv_query_port(e->context, 1, &port), 0);
	return (struct address){ port.lid, e->qp->qp_num, e->mr->rkey, (uintptr_t)e->memory };
}

void connect_to(struct end *e, struct address peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .dest_qp_num = peer.number,
				    .ah_attr = { .dlid = peer.lid } };
	assert_int_equal(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_AV), 0);
}

void post_at(struct end *e, enum ibv_wr_opcode opcode, struct address peer, size_t offset, size_t bytes,
	     size_t at)
{
	static uint64_t number;
	struct ibv_sge segment = { (uintptr_t)e->memory + offset, (uint32_t)bytes, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = ++number,
				  .sg_list = &segment,
				  .num_sge = bytes > 0,
				  .opcode = opcode,
				  .imm_data = IMMEDIATE },
			   *bad;
	wr.wr.rdma.remote_addr = peer.memory + BYTES + at;
	wr.wr.rdma.rkey = peer.key;
	assert_int_equal(ibv_post_send(e->qp, &wr, &bad), 0);
}

void post(struct end *e, enum ibv_wr_opcode opcode, struct address peer, size_t offset, size_t bytes)
{
	post_at(e, opcode, peer, offset, bytes, 0);
}

void post_receive(struct end *e, size_t bytes)
{
	struct ibv_sge segment = { (uintptr_t)e->memory + BYTES, (uint32_t)bytes, e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &segment, .num_sge = 1 }, *bad;
	assert_int_equal(e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad), 0);
}

struct ibv_wc next(struct end *e)
{
	struct ibv_wc wc;
	int got = 0;
	for (int ms = 0; ms < DEADLINE_MS && !(got = ibv_poll_cq(e->cq, 1, &wc)); ms++)
		poll(NULL, 0, 1);
	assert_int_equal(got, 1);
	return wc;
}

void expect(struct end *e, enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	const struct ibv_wc wc = next(e);
	assert_int_equal(wc.status, status);
	if (status == IBV_WC_SUCCESS)
		assert_int_equal(wc.opcode, opcode);
}

void open_pair(struct end *a, struct end *b)
{
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	open_end(a, IBV_QPT_RC);
	open_end(b, IBV_QPT_RC);
	connect_to(a, address_of(b));
	connect_to(b, address_of(a));
	memset(a->memory, 7, BYTES);
}

void close_pair(struct end *a, struct end *b)
{
	close_end(a);
	close_end(b);
}

void tell(int socket)
{
	if (write(socket, "", 1) != 1)
		abort();
}

void await(int socket)
{
	char byte;
	if (read(socket, &byte, 1) != 1)
		abort();
}

struct address exchange(const struct end *e, int socket)
{
	struct address mine = address_of(e), other;
	if (write(socket, &mine, sizeof(mine)) != sizeof(mine) ||
	    read(socket, &other, sizeof(other)) != sizeof(other))
		abort();
	return other;
}
