/* What the adapter of test/fake_verbs promises, asked of it by verbs: what an RDMA adapter does, in its order, also when something fails. */
#define _GNU_SOURCE
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

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
};

/* What the other end must know. */
struct address {
	uint16_t lid;
	uint32_t number, key;
	uint64_t memory;
};

static void open_end(struct end *e, enum ibv_qp_type type)
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
	assert_non_null(e->memory = calloc(2, BYTES));
	e->mr = ibv_reg_mr(e->pd, e->memory, (size_t)2 * BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_non_null(e->mr);
}

static void close_end(struct end *e)
{
	ibv_destroy_qp(e->qp);
	if (e->srq)
		ibv_destroy_srq(e->srq);
	ibv_destroy_cq(e->cq);
	ibv_destroy_comp_channel(e->channel);
	ibv_dereg_mr(e->mr);
	ibv_dealloc_pd(e->pd);
	ibv_close_device(e->context);
	free(e->memory);
}

static struct address address_of(const struct end *e)
{
	struct ibv_port_attr port;
	assert_int_equal(ibv_query_port(e->context, 1, &port), 0);
	return (struct address){ port.lid, e->qp->qp_num, e->mr->rkey, (uintptr_t)e->memory };
}

static void connect_to(struct end *e, struct address peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .dest_qp_num = peer.number,
				    .ah_attr = { .dlid = peer.lid } };
	assert_int_equal(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_AV), 0);
}

static void post(struct end *e, enum ibv_wr_opcode opcode, struct address peer, size_t offset, size_t bytes)
{
	static uint64_t number;
	struct ibv_sge segment = { (uintptr_t)e->memory + offset, (uint32_t)bytes, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = ++number,
				  .sg_list = &segment,
				  .num_sge = bytes > 0,
				  .opcode = opcode,
				  .imm_data = IMMEDIATE },
			   *bad;
	wr.wr.rdma.remote_addr = peer.memory + BYTES;
	wr.wr.rdma.rkey = peer.key;
	assert_int_equal(ibv_post_send(e->qp, &wr, &bad), 0);
}

static void post_receive(struct end *e, size_t bytes)
{
	struct ibv_sge segment = { (uintptr_t)e->memory + BYTES, (uint32_t)bytes, e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &segment, .num_sge = 1 }, *bad;
	assert_int_equal(e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad), 0);
}

static struct ibv_wc next(struct end *e)
{
	struct ibv_wc wc;
	int got = 0;
	for (int ms = 0; ms < DEADLINE_MS && !(got = ibv_poll_cq(e->cq, 1, &wc)); ms++)
		poll(NULL, 0, 1);
	assert_int_equal(got, 1);
	return wc;
}

static void expect(struct end *e, enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	const struct ibv_wc wc = next(e);
	assert_int_equal(wc.status, status);
	if (status == IBV_WC_SUCCESS)
		assert_int_equal(wc.opcode, opcode);
}

/* Two ends of one process. */
static void open_pair(struct end *a, struct end *b)
{
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	open_end(a, IBV_QPT_RC);
	open_end(b, IBV_QPT_RC);
	connect_to(a, address_of(b));
	connect_to(b, address_of(a));
	memset(a->memory, 7, BYTES);
}

static void close_pair(struct end *a, struct end *b)
{
	close_end(a);
	close_end(b);
}

static void writes_then_reads(void **state)
{
	struct end a, b;
	(void)state;
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
static void sends(void **state)
{
	struct end a, b;
	struct ibv_wc wc;
	(void)state;
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

static void refuses_keys(void **state)
{
	struct end a, b;
	struct ibv_async_event event;
	(void)state;
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

static void refuses_old_keys(void **state)
{
	struct end a, b;
	(void)state;
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

static void refuses_writes(void **state)
{
	struct end a, b;
	(void)state;
	open_pair(&a, &b);
	ibv_dereg_mr(b.mr);
	b.mr = ibv_reg_mr(b.pd, b.memory, (size_t)2 * BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	expect(&a, IBV_WC_REM_ACCESS_ERR, 0);
	close_pair(&a, &b);
}

static void tells_of_completions(void **state)
{
	struct end a, b;
	struct ibv_cq *cq;
	void *context;
	(void)state;
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

static void sends_datagrams(void **state)
{
	struct end a = { 0 }, b = { 0 };
	struct ibv_send_wr *bad;
	(void)state;
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

static void tell(int socket)
{
	if (write(socket, "", 1) != 1)
		abort();
}

static void await(int socket)
{
	char byte;
	if (read(socket, &byte, 1) != 1)
		abort();
}

/* Of the other process; tells it this one's. */
static struct address exchange(const struct end *e, int socket)
{
	struct address mine = address_of(e), other;
	if (write(socket, &mine, sizeof(mine)) != sizeof(mine) ||
	    read(socket, &other, sizeof(other)) != sizeof(other))
		abort();
	return other;
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

static void sees_death(void **state)
{
	struct end a = { 0 };
	int ends[2];
	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_then_reads), cmocka_unit_test(sends),
		cmocka_unit_test(refuses_keys),      cmocka_unit_test(refuses_old_keys),
		cmocka_unit_test(refuses_writes),    cmocka_unit_test(tells_of_completions),
		cmocka_unit_test(sends_datagrams),   cmocka_unit_test(sees_death),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
