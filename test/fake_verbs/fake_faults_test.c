/* SPDX-License-Identifier: BSD-3-Clause */
/* The faults of the adapter of test/fake_verbs happen: each is asked for, and seen by verbs. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "test/helpers/fake_gpu_memory.h"
#include "fake_verbs_ends.h"

enum { TRIALS = 200, LATE = 64, RELAXED_MS = 1000 };

static void set_faults(const char *faults)
{
	setenv("FAKE_VERBS", faults, 1);
}

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- What is there ---- */

UNIT_TEST(no_device)
{
	int count;
	set_faults("device=no");
	ibv_free_device_list(ibv_get_device_list(&count));
	assert_int_equal(count, 0);
	set_faults("open=no");
	struct ibv_device **list = ibv_get_device_list(&count);
	assert_int_equal(count, 1);
	assert_null(ibv_open_device(list[0]));
	assert_int_equal(errno, ENODEV);
	ibv_free_device_list(list);
}

static struct ibv_mr *register_memory(struct end *e, void *at, size_t bytes)
{
	return ibv_reg_mr(e->pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

UNIT_TEST(registration_fails)
{
	struct end a = { 0 };
	set_faults("register=1");
	open_end(&a, IBV_QPT_RC); /* registers its memory */
	assert_null(register_memory(&a, a.memory, BYTES));
	assert_int_equal(errno, ENOMEM);
	close_end(&a);
}

/* Of GPU memory alone. */
UNIT_TEST(gpu_registration_fails)
{
	const char *const faults[] = { "peermem=no", "register_gpu=no" };
	struct fake_gpu_memory gpu;
	assert_int_equal(fake_gpu_memory_map(&gpu, BYTES), 0);
	for (int i = 0; i < 2; i++) {
		struct end a = { 0 };
		set_faults(faults[i]);
		open_end(&a, IBV_QPT_RC);
		assert_null(register_memory(&a, gpu.address, BYTES));
		assert_int_equal(errno, EFAULT);
		assert_int_equal(access("/sys/module/nvidia_peermem/version", F_OK), i ? 0 : -1);
		close_end(&a);
	}
	fake_gpu_memory_unmap(&gpu);
}

UNIT_TEST(dmabuf)
{
	struct end a = { 0 };
	struct fake_gpu_memory gpu;
	assert_int_equal(fake_gpu_memory_map(&gpu, BYTES), 0);
	set_faults("dmabuf=no");
	open_end(&a, IBV_QPT_RC);
	assert_null(ibv_reg_dmabuf_mr(a.pd, 0, BYTES, 0, gpu.fd, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EOPNOTSUPP);
	close_end(&a);
	set_faults("peermem=no late=no");
	open_end(&a, IBV_QPT_RC);
	connect_to(&a, address_of(&a));
	assert_null(ibv_reg_dmabuf_mr(a.pd, 0, BYTES, 0, -1, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EBADF);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(a.pd, 100, BYTES - 100, (uintptr_t)gpu.address + 100, gpu.fd,
					      IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	struct address peer = address_of(&a);
	peer.key = mr->rkey;
	peer.memory = (uintptr_t)gpu.address;
	memset(a.memory, 7, BYTES);
	post_at(&a, IBV_WR_RDMA_WRITE, peer, 0, 1000, 200 - (size_t)BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	assert_memory_equal(gpu.readable + 200, a.memory, 1000);
	assert_int_equal(gpu.readable[199] | gpu.readable[1200], 0);
	ibv_dereg_mr(mr);
	close_end(&a);
	fake_gpu_memory_unmap(&gpu);
}

UNIT_TEST(unknown_fault)
{
	int status;
	const pid_t child = fork();
	if (child == 0) {
		set_faults("late=no oops=1");
		close(STDERR_FILENO);
		ibv_get_device_list(NULL);
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

/* ---- When and where bytes come ---- */

static void open_gpu_pair(struct end *a, struct end *b, struct fake_gpu_memory *gpu, const char *faults,
			  int rights)
{
	set_faults(faults);
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	assert_int_equal(fake_gpu_memory_map(gpu, (size_t)2 * BYTES), 0);
	open_end(a, IBV_QPT_RC);
	open_end_at(b, IBV_QPT_RC, gpu->address, rights);
	connect_to(a, address_of(b));
	connect_to(b, address_of(a));
	memset(a->memory, 7, BYTES);
}

static void close_gpu_pair(struct end *a, struct end *b, struct fake_gpu_memory *gpu)
{
	close_pair(a, b);
	fake_gpu_memory_unmap(gpu);
}

static size_t count_sevens(const unsigned char *at, size_t bytes)
{
	size_t n = 0;
	for (size_t i = 0; i < bytes; i++)
		n += at[i] == 7;
	return n;
}

/* A write into GPU memory, and a notice behind it, are complete; its end is there when a read has come back. */
UNIT_TEST(late_data)
{
	const size_t sizes[] = { 8, LATE, 1000, BYTES };
	for (int i = 0; i < 4; i++) {
		struct end a, b;
		struct fake_gpu_memory gpu;
		const size_t bytes = sizes[i];
		open_gpu_pair(&a, &b, &gpu, "", 0);
		const unsigned char *slot = gpu.readable + BYTES;
		post_receive(&b, LATE);
		post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, bytes);
		post_at(&a, IBV_WR_RDMA_WRITE_WITH_IMM, address_of(&b), 0, 0, 0);
		expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
		expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
		expect(&b, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM);
		poll(NULL, 0, 20);
		assert_int_equal(count_sevens(slot, bytes), bytes <= LATE ? 0 : bytes - LATE);
		post(&a, IBV_WR_RDMA_READ, address_of(&b), BYTES, 1);
		expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
		assert_int_equal(count_sevens(slot, bytes), bytes);
		close_gpu_pair(&a, &b, &gpu);
	}
}

UNIT_TEST(writes_at_one_place)
{
	struct end a, b;
	struct fake_gpu_memory gpu;
	open_gpu_pair(&a, &b, &gpu, "", 0);
	memset(a.memory, 5, 100);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 100);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 100, 1000);
	post(&a, IBV_WR_RDMA_READ, address_of(&b), BYTES, 1);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
	assert_int_equal(count_sevens(gpu.readable + BYTES, 1000), 1000);
	close_gpu_pair(&a, &b, &gpu);
}

UNIT_TEST(late_no)
{
	struct end a, b;
	struct fake_gpu_memory gpu;
	open_gpu_pair(&a, &b, &gpu, "late=no", 0);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	assert_int_equal(count_sevens(gpu.readable + BYTES, BYTES), BYTES);
	close_gpu_pair(&a, &b, &gpu);
}

UNIT_TEST(cpu_dies)
{
	struct fake_gpu_memory gpu;
	int status;
	assert_int_equal(fake_gpu_memory_map(&gpu, BYTES), 0);
	const pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		gpu.readable[0] = 1;
		_exit(*(volatile unsigned char *)gpu.address);
	}
	waitpid(child, &status, 0);
	assert_true(WIFSIGNALED(status));
	fake_gpu_memory_unmap(&gpu);
}

UNIT_TEST(delay)
{
	struct end a, b;
	set_faults("delay_ms=40");
	open_pair(&a, &b);
	const double start = now_ms();
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	assert_true(now_ms() - start > 75); /* there, and back */
	assert_int_equal(count_sevens(b.memory + BYTES, BYTES), BYTES);
	close_pair(&a, &b);
}

static int reorders(struct end *first, struct address to, struct end *second, struct address other)
{
	struct ibv_wc wc;
	post(first, IBV_WR_RDMA_WRITE, to, 0, 8);
	post(second, IBV_WR_RDMA_WRITE, other, 0, 8);
	expect(second, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	if (!ibv_poll_cq(first->cq, 1, &wc)) {
		expect(first, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
		return 1;
	}
	return 0;
}

UNIT_TEST(reordered_pairs)
{
	struct end a, b, c, d;
	int count = 0;
	set_faults("reorder_pairs=yes");
	open_pair(&a, &b);
	open_pair(&c, &d);
	for (int i = 0; i < TRIALS && !count; i++)
		count = reorders(&a, address_of(&b), &c, address_of(&d));
	assert_int_equal(count, 1);
	close_pair(&a, &b);
	close_pair(&c, &d);
}

/* Within a queue pair all keeps its order all the same. */
UNIT_TEST(ordered_pair)
{
	struct end a, b;
	set_faults("reorder_pairs=yes delay_ms=1");
	open_pair(&a, &b);
	for (int i = 0; i < 50; i++) {
		a.memory[0] = (unsigned char)i;
		post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 1);
		post(&a, IBV_WR_RDMA_READ, address_of(&b), BYTES, 1);
		expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
		expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
		assert_int_equal(a.memory[BYTES], i);
	}
	close_pair(&a, &b);
}

/* Two writes and a read; what is there of the first and the second one. */
static void write_two(struct end *a, const struct end *b, int *first, int *second)
{
	memset(b->memory + BYTES, 0, 200);
	post(a, IBV_WR_RDMA_WRITE, address_of(b), 0, 100);
	post_at(a, IBV_WR_RDMA_WRITE, address_of(b), 0, 100, 100);
	post(a, IBV_WR_RDMA_READ, address_of(b), BYTES, 1);
	expect(a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	expect(a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	*first = b->memory[BYTES];
	*second = b->memory[BYTES + 100];
	expect(a, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
}

static void open_relaxed_pair(struct end *a, struct end *b, int access)
{
	set_faults("reorder_relaxed=yes");
	open_pair(a, b);
	ibv_dereg_mr(b->mr);
	b->mr =
	    ibv_reg_mr(b->pd, b->memory, (size_t)2 * BYTES,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | access);
}

UNIT_TEST(relaxed_ordering)
{
	struct end a, b;
	int first = 1, second = 0;
	open_relaxed_pair(&a, &b, IBV_ACCESS_RELAXED_ORDERING);
	for (int i = 0; i < TRIALS && (first || !second); i++)
		write_two(&a, &b, &first, &second);
	assert_true(!first && second);
	for (int ms = 0; ms < RELAXED_MS && !*(volatile unsigned char *)(b.memory + BYTES); ms++)
		poll(NULL, 0, 1);
	assert_int_equal(b.memory[BYTES], 7); /* by itself */
	memset(b.memory + BYTES, 0, 200);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 100);
	post(&a, IBV_WR_RDMA_WRITE_WITH_IMM, address_of(&b), 0, 0);
	post_receive(&b, LATE);
	expect(&b, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(count_sevens(b.memory + BYTES, 100), 100); /* before a message that is received */
	close_pair(&a, &b);
}

UNIT_TEST(strict_ordering)
{
	struct end a, b;
	int first, second;
	open_relaxed_pair(&a, &b, 0);
	write_two(&a, &b, &first, &second);
	assert_int_equal(first, 7);
	assert_int_equal(second, 7);
	close_pair(&a, &b);
}

UNIT_TEST(corrupted_byte)
{
	struct end a, b;
	struct fake_gpu_memory gpu;
	set_faults("corrupt=2");
	open_pair(&a, &b);
	for (int i = 0; i < 3; i++) {
		memset(b.memory + BYTES, 0, BYTES);
		post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, BYTES);
		expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
		assert_int_equal(count_sevens(b.memory + BYTES, BYTES), BYTES - (i == 1));
	}
	close_pair(&a, &b);
	open_gpu_pair(&a, &b, &gpu, "corrupt=1", 0);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 1024);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	assert_true(gpu.readable[BYTES + 512] != 7);
	close_gpu_pair(&a, &b, &gpu);
}

/* ---- What ends ---- */

UNIT_TEST(stop_for_a_time)
{
	struct end a, b;
	set_faults("stop=2 stop_ms=60 retries_ms=10000");
	open_pair(&a, &b);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	const double start = now_ms();
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	assert_true(now_ms() - start > 55);
	close_pair(&a, &b);
}

/* A message without a receive waits all the same: its sender has heard of the peer. */
UNIT_TEST(retries_end)
{
	struct end a, b;
	set_faults("stop=3 retries_ms=300");
	open_pair(&a, &b);
	post(&a, IBV_WR_SEND, address_of(&b), 0, 8);
	poll(NULL, 0, 600);
	post_receive(&b, 8);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_SEND);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	const double start = now_ms();
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	expect(&a, IBV_WC_RETRY_EXC_ERR, 0);
	expect(&a, IBV_WC_WR_FLUSH_ERR, 0);
	assert_true(now_ms() - start > 290);
	close_pair(&a, &b);
}

static enum ibv_event_type next_event(const struct end *e)
{
	struct ibv_async_event event;
	struct pollfd pipe = { .fd = e->context->async_fd, .events = POLLIN };
	assert_int_equal(poll(&pipe, 1, DEADLINE_MS), 1);
	assert_int_equal(ibv_get_async_event(e->context, &event), 0);
	ibv_ack_async_event(&event);
	return event.event_type;
}

static enum ibv_port_state port_state(const struct end *e)
{
	struct ibv_port_attr port;
	assert_int_equal(ibv_query_port(e->context, 1, &port), 0);
	return port.state;
}

UNIT_TEST(link_down)
{
	struct end a, b;
	set_faults("down=2 down_ms=200 retries_ms=10000");
	open_pair(&a, &b);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	assert_int_equal(port_state(&a), IBV_PORT_ACTIVE);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, BYTES);
	assert_int_equal(port_state(&a), IBV_PORT_DOWN);
	assert_int_equal(next_event(&a), IBV_EVENT_PORT_ERR);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	assert_int_equal(next_event(&a), IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(port_state(&a), IBV_PORT_ACTIVE);
	close_pair(&a, &b);
}

UNIT_TEST(death)
{
	struct end a, b;
	int count;
	set_faults("die=2");
	open_pair(&a, &b);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	expect(&a, IBV_WC_WR_FLUSH_ERR, 0);
	assert_int_equal(next_event(&a), IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(next_event(&a), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(next_event(&b), IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(next_event(&b), IBV_EVENT_DEVICE_FATAL);
	assert_null(register_memory(&a, a.memory, BYTES));
	assert_int_equal(errno, EIO);
	struct ibv_device **list = ibv_get_device_list(&count);
	assert_int_equal(count, 0);
	ibv_free_device_list(list);
	close_pair(&a, &b);
	set_faults("");
	open_pair(&a, &b); /* another device */
	post(&a, IBV_WR_RDMA_WRITE, address_of(&b), 0, 8);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	close_pair(&a, &b);
}

/* A process whose adapter has this fault at its second request. */
static void be_faulty(int socket, const char *faults)
{
	struct end e = { 0 };
	set_faults(faults);
	open_end(&e, IBV_QPT_RC);
	const struct address peer = exchange(&e, socket);
	connect_to(&e, peer);
	tell(socket);
	await(socket);
	post(&e, IBV_WR_RDMA_WRITE, peer, 0, 8);
	expect(&e, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	await(socket);
	post(&e, IBV_WR_RDMA_WRITE, peer, 0, 8);
	tell(socket);
	pause();
}

/* The peer of an adapter that has stopped, lost its link or died: its work ends with an error, in this time. */
static void ends_at_peer(const char *faults, double least_ms)
{
	struct end a = { 0 };
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	const pid_t child =
	    fork(); /* while there is one thread: another one could hold a lock of malloc, which the child would wait for */
	if (child == 0)
		be_faulty(ends[1], faults);
	close(ends[1]);
	set_faults("retries_ms=300");
	open_end(&a, IBV_QPT_RC);
	const struct address peer = exchange(&a, ends[0]);
	connect_to(&a, peer);
	tell(ends[0]);
	await(ends[0]);
	post(&a, IBV_WR_RDMA_WRITE, peer, 0, BYTES);
	expect(&a, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	tell(ends[0]);
	await(ends[0]);
	const double start = now_ms();
	post(&a, IBV_WR_RDMA_WRITE, peer, 0, 8);
	expect(&a, IBV_WC_RETRY_EXC_ERR, 0);
	assert_true(now_ms() - start > least_ms);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ends[0]);
	close_end(&a);
}

UNIT_TEST(peers_fault)
{
	ends_at_peer("stop=2", 290);
	ends_at_peer("down=2", 290);
	ends_at_peer("die=2", -1);
}
