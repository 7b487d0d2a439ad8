/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX puts into slots in GPU memory, over the adapter of test/fake_verbs, which test/fake_verbs/fake_verbs.sh preloads: two processes, whose slots the CPU can't
 * touch. What a receiver must do before it may say 'arrived', and what UCX says when something is missing.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "test/helpers/unit.h"
#include "test/helpers/fake_gpu_memory.h"

enum {
	SLAB_BYTES = 4 << 20,
	OFFSET = 192,
	DEADLINE_MS = 20000,
	NO_DOMAIN_BYTES = 9,
	MOST_SIZES = 8,
	POISON = 0xee,
	FLUSHED_BYTES = 8
};

/* What has become of a message: the receiver's exit status. */
enum outcome { RIGHT, WRONG_BYTES, NOT_MAPPED, NOT_REGISTERED, NOT_PUT, CRASHED, FAILED, PEER_GONE };

/* How two processes go about it. */
struct manner {
	const char *faults;
	size_t sizes[MOST_SIZES]; /* of messages in turn, all into one slot; 0: no more */
	int reads_back; /* the receiver, before it looks */
	int is_careless; /* UCX may read small messages with the CPU */
	const char *relaxed; /* IB_PCI_RELAXED_ORDERING */
};

struct side {
	const struct manner *manner;
	int socket;
	struct fake_gpu_memory gpu;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_mem_h slab;
	ucp_ep_h peer, loop;
	ucp_rkey_h peer_key, loop_key;
	uint64_t peer_slab;
	int has_notice;
};

static void leave(enum outcome why)
{
	_exit(why);
}

static void check(ucs_status_t status, enum outcome why)
{
	if (status != UCS_OK)
		leave(why);
}

/* ---- Between the processes ---- */

static void send_bytes(struct side *s, const void *bytes, size_t n)
{
	if (write(s->socket, bytes, n) != (ssize_t)n)
		leave(FAILED);
}

/* Wiring takes both sides' progress. */
static void receive_bytes(struct side *s, void *to, size_t n)
{
	for (int ms = 0; n && ms < DEADLINE_MS;) {
		const ssize_t got = recv(s->socket, to, n, MSG_DONTWAIT);
		if (got == 0)
			leave(PEER_GONE);
		if (got > 0) {
			to = (char *)to + got;
			n -= (size_t)got;
			continue;
		}
		if (!s->worker || !ucp_worker_progress(s->worker))
			ms += poll(NULL, 0, 1) == 0;
	}
	if (n)
		leave(FAILED);
}

/* Something of a size that the other side may not know. */
static void *swap(struct side *s, const void *mine, size_t bytes)
{
	size_t other;
	send_bytes(s, &bytes, sizeof(bytes));
	send_bytes(s, mine, bytes);
	receive_bytes(s, &other, sizeof(other));
	void *theirs = malloc(other);
	receive_bytes(s, theirs, other);
	return theirs;
}

/* ---- UCX, as links set it up ---- */

static void modify(ucp_config_t *config, const char *name, const char *value)
{
	check(ucp_config_modify(config, name, value), FAILED);
}

static int is_older_than(unsigned major, unsigned minor)
{
	unsigned m, n, release;
	ucp_get_version(&m, &n, &release);
	return m < major || (m == major && n < minor);
}

static void open_context(struct side *s)
{
	const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				      .features = UCP_FEATURE_RMA | UCP_FEATURE_AM };
	ucp_config_t *config;
	check(ucp_config_read(NULL, NULL, &config), FAILED);
	modify(config, "NET_DEVICES", "fake0:1");
	modify(config, "MEMTYPE_REG_WHOLE_ALLOC_TYPES", "rocm");
	modify(config, is_older_than(1, 17) ? "PCI_RELAXED_ORDERING" : "IB_PCI_RELAXED_ORDERING",
	       s->manner->relaxed);
	if (!is_older_than(1, 16))
		modify(config, "MAX_RMA_RAILS", "1");
	if (!is_older_than(1, 16) && is_older_than(1, 19))
		modify(config, "PROTO_ENABLE", "n");
	if (is_older_than(1, 19) && !s->manner->is_careless)
		modify(config, "ZCOPY_THRESH", "0");
	check(ucp_init(&params, config, &s->context), FAILED);
	ucp_config_release(config);
}

static ucs_status_t on_notice(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
			      const ucp_am_recv_param_t *param)
{
	((struct side *)arg)->has_notice = 1;
	return UCS_OK;
}

static void open_worker(struct side *s)
{
	const ucp_worker_params_t params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					     .thread_mode = UCS_THREAD_MODE_SINGLE };
	const ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
							       UCP_AM_HANDLER_PARAM_FIELD_CB |
							       UCP_AM_HANDLER_PARAM_FIELD_ARG,
						 .cb = on_notice,
						 .arg = s };
	check(ucp_worker_create(s->context, &params, &s->worker), FAILED);
	check(ucp_worker_set_am_recv_handler(s->worker, &handler), FAILED);
}

static ucp_ep_h connect_to(struct side *s, const void *address)
{
	const ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
						       UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
					 .address = address,
					 .err_mode = UCP_ERR_HANDLING_MODE_PEER };
	ucp_ep_h ep;
	check(ucp_ep_create(s->worker, &params, &ep), FAILED);
	return ep;
}

static void map_slab(struct side *s)
{
	const ucp_mem_map_params_t params = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
							    UCP_MEM_MAP_PARAM_FIELD_LENGTH |
							    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
					      .address = s->gpu.address,
					      .length = s->gpu.bytes,
					      .memory_type = UCS_MEMORY_TYPE_CUDA };
	check(ucp_mem_map(s->context, &params, &s->slab), NOT_MAPPED);
}

/* Each side's address, key and slab; a loopback beside. */
static void connect_sides(struct side *s)
{
	ucp_address_t *address;
	size_t address_bytes, key_bytes;
	void *key;
	const uint64_t slab = (uintptr_t)s->gpu.address;
	check(ucp_worker_get_address(s->worker, &address, &address_bytes), FAILED);
	check(ucp_rkey_pack(s->context, s->slab, &key, &key_bytes), FAILED);
	if (key_bytes <= NO_DOMAIN_BYTES)
		leave(NOT_REGISTERED);
	void *peer_address = swap(s, address, address_bytes), *peer_key = swap(s, key, key_bytes);
	uint64_t *peer_slab = swap(s, &slab, sizeof(slab));
	s->peer = connect_to(s, peer_address);
	s->loop = connect_to(s, address);
	s->peer_slab = *peer_slab;
	check(ucp_ep_rkey_unpack(s->peer, peer_key, &s->peer_key), FAILED);
	check(ucp_ep_rkey_unpack(s->loop, key, &s->loop_key), FAILED);
	free(peer_slab);
	free(peer_key);
	free(peer_address);
	ucp_rkey_buffer_release(key);
	ucp_worker_release_address(s->worker, address);
}

static void open_side(struct side *s)
{
	if (fake_gpu_memory_map(&s->gpu, SLAB_BYTES))
		leave(FAILED);
	open_context(s);
	open_worker(s);
	map_slab(s);
	connect_sides(s);
}

static void finish(struct side *s, void *request, enum outcome why)
{
	if (!UCS_PTR_IS_PTR(request)) {
		check(UCS_PTR_STATUS(request), why);
		return;
	}
	for (int ms = 0; ucp_request_check_status(request) == UCS_INPROGRESS && ms < DEADLINE_MS;)
		if (!ucp_worker_progress(s->worker))
			ms += poll(NULL, 0, 1) == 0;
	check(ucp_request_check_status(request), why);
	ucp_request_free(request);
}

/* ---- A message ---- */

static unsigned char byte_of(size_t bytes, size_t i)
{
	return (unsigned char)(bytes + (i * 31 >> 2));
}

/* A put of the data, a notice behind it on the same queue pair; both have ended before the next message. */
static void send_one(struct side *s, size_t bytes)
{
	const ucp_request_param_t plain = { 0 }, from_gpu = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH |
				(s->manner->is_careless ? 0 : UCP_OP_ATTR_FLAG_NO_IMM_CMPL),
		.memory_type = UCS_MEMORY_TYPE_CUDA,
		.memh = s->slab
	};
	char done;
	for (size_t i = 0; i < bytes; i++)
		s->gpu.readable[i] = byte_of(bytes, i);
	void *put =
	    ucp_put_nbx(s->peer, s->gpu.address, bytes, s->peer_slab + OFFSET, s->peer_key, &from_gpu);
	void *notice = ucp_am_send_nbx(s->peer, 0, NULL, 0, NULL, 0, &plain);
	finish(s, put, NOT_PUT);
	finish(s, notice, FAILED);
	receive_bytes(s, &done, 1);
}

/* Where the device needs it: the slot's last bytes come over the same adapter, behind all that it has written. */
static void read_back(struct side *s, size_t bytes)
{
	static unsigned char flushed[FLUSHED_BYTES];
	const ucp_request_param_t to_host = { .op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
					      .memory_type = UCS_MEMORY_TYPE_HOST };
	const uint64_t last = (uintptr_t)s->gpu.address + OFFSET + bytes - FLUSHED_BYTES;
	finish(s, ucp_get_nbx(s->loop, flushed, FLUSHED_BYTES, last, s->loop_key, &to_host), FAILED);
}

/* The stand-in of a kernel. */
static void look(const struct side *s, size_t bytes)
{
	const unsigned char *slot = s->gpu.readable + OFFSET;
	size_t bad = slot[-1] != POISON || slot[bytes] != POISON;
	for (size_t i = 0; i < bytes; i++)
		bad += slot[i] != byte_of(bytes, i);
	if (bad)
		leave(WRONG_BYTES);
}

static void receive_one(struct side *s, size_t bytes)
{
	char byte;
	for (int ms = 0; !s->has_notice && ms < DEADLINE_MS;) {
		if (!recv(s->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT))
			leave(PEER_GONE);
		if (!ucp_worker_progress(s->worker))
			ms += poll(NULL, 0, 1) == 0;
	}
	if (!s->has_notice)
		leave(NOT_PUT);
	s->has_notice = 0;
	if (s->manner->reads_back)
		read_back(s, bytes);
	look(s, bytes); /* it has arrived */
	memset(s->gpu.readable, POISON, s->gpu.bytes);
	send_bytes(s, "", 1);
}

static void run(struct side *s, int sends)
{
	const ucp_request_param_t plain = { 0 };
	open_side(s);
	memset(s->gpu.readable, POISON, s->gpu.bytes);
	finish(s, ucp_ep_flush_nbx(s->peer, &plain), FAILED); /* wired up */
	for (const size_t *bytes = s->manner->sizes; *bytes; bytes++)
		sends ? send_one(s, *bytes) : receive_one(s, *bytes);
	leave(RIGHT);
}

static pid_t start(const struct manner *m, int sockets[2], int which)
{
	const pid_t child = fork();
	if (child)
		return child;
	struct side s = { .manner = m, .socket = sockets[which] };
	close(sockets[!which]);
	signal(SIGSEGV, SIG_DFL);
	setenv("FAKE_VERBS", m->faults, 1);
	setenv("UCX_HANDLE_ERRORS", "none", 1);
	setenv("UCX_ERROR_SIGNALS", "", 1);
	setenv("UCX_LOG_LEVEL", "fatal", 0);
	run(&s, !which);
	return 0;
}

static enum outcome outcome_of(pid_t child)
{
	int status;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? (enum outcome)WEXITSTATUS(status) : CRASHED;
}

/* Where the outcomes differ, that of the side which has ended the other. */
static enum outcome send_messages(const struct manner *m)
{
	int sockets[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	const pid_t receiver = start(m, sockets, 1), sender = start(m, sockets, 0);
	close(sockets[0]);
	close(sockets[1]);
	const enum outcome sent = outcome_of(sender), received = outcome_of(receiver);
	return sent == RIGHT || sent == PEER_GONE ? received : sent;
}

static struct manner manner(const char *faults)
{
	return (struct manner){ .faults = faults,
				.sizes = { 8, 64, 200, 4096, 64 << 10, 1 << 20, 8 },
				.reads_back = 1,
				.relaxed = "n" };
}

static void expect(struct manner m, enum outcome o)
{
	assert_int_equal(send_messages(&m), o);
}

/* ---- Cases ---- */

UNIT_TEST(read_back_first)
{
	expect(manner(""), RIGHT);
}

/* The adapter catches a receiver that says 'arrived' at the notice. */
UNIT_TEST(no_read_back)
{
	struct manner m = manner("");
	m.reads_back = 0;
	expect(m, WRONG_BYTES);
	m.sizes[0] = 64 << 10;
	expect(m, WRONG_BYTES);
	m.faults = "late=no";
	expect(m, RIGHT);
}

UNIT_TEST(out_of_order)
{
	expect(manner("delay_ms=2 reorder_pairs=yes reorder_relaxed=yes"), RIGHT);
}

/* With relaxed ordering a read may pass what was written before it. UCX from 1.15 on never asks for it by verbs alone. */
UNIT_TEST(relaxed_ordering)
{
	struct manner m = manner("reorder_relaxed=yes");
	m.relaxed = "y";
	expect(m, is_older_than(1, 15) ? WRONG_BYTES : RIGHT);
}

UNIT_TEST(corrupted_byte)
{
	struct manner m = manner("corrupt=1");
	m.sizes[0] = 64 << 10;
	expect(m, WRONG_BYTES);
}

UNIT_TEST(not_registered)
{
	expect(manner("register_gpu=no"), NOT_MAPPED);
	expect(manner("peermem=no"), NOT_REGISTERED);
}

UNIT_TEST(cpu_dies)
{
	struct manner m = manner("");
	m.is_careless = 1;
	expect(m, CRASHED);
}
