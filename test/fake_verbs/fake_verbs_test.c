/* SPDX-License-Identifier: BSD-3-Clause */
/* What the adapter of test/fake_verbs promises, asked of it by verbs: what an RDMA adapter does, in its order, also when something fails. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "fake_verbs_ends.h"

UNIT_TEST(writes_then_reads)
{
	struct end a, b;
	open_pair(&a, &b);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, BYTES);
	post(&a, IBV_WR_RDMA_WRITE, (struct address){ 0 }, 0,
	     0); /* of nothing: what was written before it is there */
	post(&a, IBV_WR_RDMA_READ, address_of(&b), BYTES, BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	assert_memory_equal(a.memory, b.memory + BYTES, BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
	assert_memory_equal(a.memory, a.memory + BYTES, BYTES);
	close_pair(&a, &b);
}

/* A send waits for a receive, and is not complete before; what is written behind it completes behind it. */
UNIT_TEST(sends)
{
	struct end a, b;
	struct ibv_wc wc;
	open_pair(&a, &b);
	post(&a, IBV_WR_SEND_WITH_IMM, address_of(&b), 0, 100);
	post(&a, IBV_WR_RDMA_WRITE_WITH_IMM, address_of(&b), 0, 0);
	poll(NULL, 0, 20);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	post_receive(&b, BYTES);
	post_receive(&b, BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_SEND);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	wc = next(&b);
	assert_true(wc.opcode == IBV_WC_RECV && wc.byte_len == 100 && wc.wc_flags & IBV_WC_WITH_IMM &&
		    wc.imm_data == IMMEDIATE);
	expect(&b, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_memory_equal(a.memory, b.memory + BYTES, 100);
	close_pair(&a, &b);
}

UNIT_TEST(refuses_keys)
{
	struct end a, b;
	struct ibv_async_event event;
	open_pair(&a, &b);
	struct address wrong = address_of(&b);
	wrong.memory += 1; /* so its last byte lies behind the registration */
	post(&a, IBV_WR_RDMA_WRITE, wrong, 0, BYTES);
	post(&a, IBV_WR_SEND, wrong, 0, 1);
	expect(&a, IBV_WC_REM_ACCESS_ERR, 0);
	expect(&a, IBV_WC_WR_FLUSH_ERR, 0);
	post(&a, IBV_WR_RDMA_READ, address_of(&b), BYTES, 8);
	expect(&a, IBV_WC_WR_FLUSH_ERR, 0);
	assert_int_equal(ibv_get_async_event(a.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.qp, a.qp);
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(b.memory[BYTES + i], 0);
	close_pair(&a, &b);
}

UNIT_TEST(refuses_old_keys)
{
	struct end a, b;
	open_pair(&a, &b);
	const struct address before = address_of(&b);
	ibv_dereg_mr(b.mr);
	b.mr = ibv_reg_mr(b.pd, b.memory, (size_t)2 * BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	post(&a, IBV_WR_RDMA_READ, address_of(&b), BYTES, 8);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
	post(&a, IBV_WR_RDMA_READ, before, BYTES, 8);
	expect(&a, IBV_WC_REM_ACCESS_ERR, 0);
	post(&b, IBV_WR_SEND, address_of(&a), 0, 8); /* to a queue pair that has failed */
	expect(&b, IBV_WC_RETRY_EXC_ERR, 0);
	close_pair(&a, &b);
}

UNIT_TEST(refuses_writes)
{
	struct end a, b;
	open_pair(&a, &b);
	ibv_dereg_mr(b.mr);
	b.mr = ibv_reg_mr(b.pd, b.memory, (size_t)2 * BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	expect(&a, IBV_WC_REM_ACCESS_ERR, 0);
	close_pair(&a, &b);
}

UNIT_TEST(tells_of_completions)
{
	struct end a, b;
	struct ibv_cq *cq;
	void *context;
	open_pair(&a, &b);
	struct pollfd event = { .fd = a.channel->fd, .events = POLLIN };
	ibv_req_notify_cq(a.cq, 0);
	assert_int_equal(poll(&event, 1, 0), 0);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	assert_int_equal(poll(&event, 1, DEADLINE_MS), 1);
	assert_int_equal(ibv_get_cq_event(a.channel, &cq, &context), 0);
	assert_true(cq == a.cq && context == &a);
	ibv_ack_cq_events(cq, 1);
	close_pair(&a, &b);
}

UNIT_TEST(sends_datagrams)
{
	struct end a = { 0 }, b = { 0 };
	struct ibv_send_wr *bad;
	open_end(&a, IBV_QPT_UD);
	open_end(&b, IBV_QPT_UD);
	connect_to(&a, address_of(&b));
	connect_to(&b, address_of(&a));
	struct ibv_ah_attr attr = { .dlid = address_of(&b).lid };
	struct ibv_sge segment = { (uintptr_t) "datagram", 8, 0 };
	struct ibv_send_wr wr = {
		.sg_list = &segment, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE
	};
	wr.wr.ud.ah = ibv_create_ah(a.pd, &attr);
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	post_receive(&b, 1000);
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_SEND);
	const struct ibv_wc wc = next(&b);
	assert_true(wc.status == IBV_WC_SUCCESS && wc.byte_len == 8 + GRH_BYTES && wc.src_qp == a.qp->qp_num);
	assert_memory_equal(b.memory + BYTES + GRH_BYTES, "datagram", 8);
	ibv_destroy_ah(wr.wr.ud.ah);
	close_pair(&a, &b);
}

/* A process of its own, which answers until it is killed; a child of it, which lives on, does not keep it alive. */
static void be_peer(int socket)
{
	struct end e = { 0 };
	open_end(&e, IBV_QPT_RC);
	connect_to(&e, exchange(&e, socket));
	tell(socket);
	await(socket);
	if (fork() == 0) {
		close(socket);
		sleep(DEADLINE_MS / 500);
		_exit(0);
	}
	tell(socket);
	pause();
}

UNIT_TEST(sees_death)
{
	struct end a = { 0 };
	int ends[2];
	open_end(&a, IBV_QPT_RC); /* before the fork: the child has an adapter of its own all the same */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	const pid_t child = fork();
	if (child == 0) {
		be_peer(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	const struct address peer = exchange(&a, ends[0]);
	assert_int_not_equal(peer.lid, address_of(&a).lid);
	connect_to(&a, peer);
	await(ends[0]);
	post(&a, IBV_WR_RDMA_WRITE, peer, 0, BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	tell(ends[0]);
	await(ends[0]);
	post(&a, IBV_WR_SEND, peer, 0, 8); /* that nobody receives */
	post(&a, IBV_WR_RDMA_WRITE, peer, 0, 8);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	expect(&a, IBV_WC_RETRY_EXC_ERR, 0);
	expect(&a, IBV_WC_WR_FLUSH_ERR, 0);
	close(ends[0]);
	close_end(&a);
}
