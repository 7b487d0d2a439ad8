#include "boot_tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/status.h"
#include "base/wait.h"
#include "boot_fds.h"
#include "boot_frame.h"
#include "boot_listener.h"
#include "boot_wire.h"

enum { POLL_MS = 5, TEXT_BYTES = 256, IFNAME_BYTES = 256 };
static const int64_t SECOND = 1000000000, FIRST_PAUSE = 10000000, LONGEST_PAUSE = 500000000;
static const int64_t HANDSHAKE_NS = 10000000000, WARN_NS = 10000000000, STALE_NS = 5000000000;

enum state {
	PAUSED, /* until next_try */
	CONNECTING,
	GREETED, /* connected; waits for the challenge */
	PROVING, /* waits for the listener's answer */
	JOINED, /* waits for the table: for the other ranks */
	COMPLETE
};

struct tcp_boot {
	struct boot base;
	struct boot_id id;
	char ifname[IFNAME_BYTES];
	struct boot_options options; /* without an address; ifname is the copy */
	struct boot_peer self;
	pid_t pid; /* of the process that opened it */
	int abort_fd;
	_Atomic int is_aborted;
	int error; /* what ended it */

	/* The connection. */
	enum state state;
	int fd;
	int64_t pause, next_try, try_ends, stale_at;
	char last_failure[TEXT_BYTES];
	unsigned char challenge[BOOT_NONCE_BYTES], hello[BOOT_HELLO_BYTES];
	struct frame_reader reader;
	struct frame_writer writer;
	struct boot_peer maker, *peers; /* the listener's process; all ranks, once complete */

	/* The all-gather. */
	int is_gathering;
	uint64_t round;
	size_t bytes;
	void *out;
	struct frame *part; /* as long as there is no connection for it */
	int64_t timeout, deadline, waits_since, next_who, next_warn;
	uint64_t missing; /* as the listener said last */
};

static struct tcp_boot *of(struct boot *b)
{
	return (struct tcp_boot *)b;
}

static void disconnect(struct tcp_boot *b)
{
	boot_fds_close(b->fd);
	b->fd = -1;
	frame_reader_free(&b->reader);
	frame_writer_free(&b->writer);
}

/* Tells the listener why this rank leaves, if it can. */
static void send_leave(struct tcp_boot *b, int code, const char *text)
{
	struct boot_reason reason = { .code = code };
	if (b->fd < 0 || b->state < JOINED)
		return;
	snprintf(reason.text, sizeof(reason.text), "%s", text);
	struct frame *f = boot_reason_frame(BOOT_LEAVE, &reason);
	if (f && !frame_queue(&b->writer, f))
		frame_flush(&b->writer, b->fd);
	frame_free(f);
}

static int fail(struct tcp_boot *b, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Ends the bootstrap: one line, and the same code for ever. */
static int fail(struct tcp_boot *b, int code, const char *format, ...)
{
	char text[BOOT_TEXT_BYTES];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	b->error = code;
	if (code == CORALE_EABORTED)
		log_line(LOG_INFO, b->base.rank, "bootstrap: %s", text);
	else
		log_error(code, b->base.rank, "bootstrap: %s", text);
	send_leave(b, code, text);
	disconnect(b);
	return code;
}

/* ---- Connecting */

enum failure {
	BROKEN, /* tried again until the deadline */
	NOBODY, /* no such listener there: the maker of the id has ended */
	UNKNOWN /* the listener does not know the id: its group has ended, or has not begun */
};

/* True if the listener may come later than this rank. */
static int may_come(const struct tcp_boot *b, enum failure kind)
{
	if (kind == NOBODY)
		return b->id.flags == BOOT_ID_ADDRESS;
	return kind == BROKEN || b->id.flags != 0;
}

/* Tries again later, or gives up. */
static int try_later(struct tcp_boot *b, enum failure kind, const char *text)
{
	char where[BOOT_ADDRESS_TEXT];
	int64_t now = wait_now_ns();
	snprintf(b->last_failure, sizeof(b->last_failure), "%s", text);
	disconnect(b);
	if (!may_come(b, kind) && now >= b->stale_at)
		return fail(b, CORALE_EPEER,
			    "stale id: %s, where the id says that it was made (%s). The process that made "
			    "the id must "
			    "run until the group has ended, and an id serves one group: make a new one",
			    b->last_failure, boot_address_text(&b->id.address, where));
	b->state = PAUSED;
	b->next_try = now + b->pause;
	b->pause = b->pause * 2 < LONGEST_PAUSE ? b->pause * 2 : LONGEST_PAUSE;
	return 0;
}

static int try_failed(struct tcp_boot *b, int error)
{
	char text[TEXT_BYTES], where[BOOT_ADDRESS_TEXT];
	boot_address_text(&b->id.address, where);
	if (error == ECONNREFUSED) {
		snprintf(text, sizeof(text), "nobody listens at %s", where);
		return try_later(b, NOBODY, text);
	}
	snprintf(text, sizeof(text), "cannot connect to %s: %s", where, strerror(error));
	return try_later(b, BROKEN, text);
}

static int connected(struct tcp_boot *b)
{
	int on = 1;
	setsockopt(b->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(b->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	b->reader.limit = BOOT_TEXT_BYTES + 8;
	b->state = GREETED;
	return 0;
}

static int begin_connect(struct tcp_boot *b)
{
	struct sockaddr_storage name;
	socklen_t length = boot_address_to_socket(&b->id.address, &name);
	b->fd = boot_fds_socket(name.ss_family);
	if (b->fd < 0)
		return fail(b, CORALE_ESYSTEM, "cannot make a TCP socket: %s", strerror(errno));
	b->try_ends = wait_now_ns() + HANDSHAKE_NS;
	if (connect(b->fd, (struct sockaddr *)&name, length) == 0)
		return connected(b);
	if (errno != EINPROGRESS && errno != EINTR)
		return try_failed(b, errno);
	b->state = CONNECTING;
	return 0;
}

static int check_connect(struct tcp_boot *b)
{
	struct pollfd p = { .fd = b->fd, .events = POLLOUT };
	int error = 0;
	socklen_t length = sizeof(error);
	if (poll(&p, 1, 0) <= 0)
		return 0;
	getsockopt(b->fd, SOL_SOCKET, SO_ERROR, &error, &length);
	return error ? try_failed(b, error) : connected(b);
}

static int queue(struct tcp_boot *b, struct frame *f)
{
	int ret = f ? frame_queue(&b->writer, f) : CORALE_ENOMEM;
	frame_free(f);
	return ret ? fail(b, CORALE_ENOMEM, "no memory for a message") : 0;
}

/* ---- The handshake */

static int take_challenge(struct tcp_boot *b)
{
	uint32_t version;
	char text[TEXT_BYTES];
	if (b->reader.kind != BOOT_CHALLENGE ||
	    !boot_challenge_decode(b->reader.data, b->reader.bytes, &version, b->challenge)) {
		snprintf(text, sizeof(text), "another program listens");
		return try_later(b, NOBODY, text);
	}
	struct boot_hello h = { .version = BOOT_PROTOCOL,
				.process = b->id.process,
				.name = b->id.name,
				.rank = b->base.rank,
				.size = b->base.size,
				.peer = b->self };
	if (boot_random(h.nonce, sizeof(h.nonce)))
		return fail(b, CORALE_ESYSTEM, "no random bytes");
	boot_hello_encode(&h, b->hello);
	struct frame *f = frame_new(BOOT_HELLO, 0, BOOT_PROOF_BYTES);
	if (f) {
		memcpy(frame_payload(f), b->hello, BOOT_HELLO_BYTES);
		boot_prove_hello(b->id.key, b->challenge, b->hello, frame_payload(f) + BOOT_HELLO_BYTES);
	}
	b->state = PROVING;
	return queue(b, f);
}

static int take_refusal(struct tcp_boot *b)
{
	struct boot_reason reason;
	if (!b->reader.bytes || !boot_reason_decode(b->reader.data, b->reader.bytes, &reason))
		return try_later(b, BROKEN, "the listener sent a damaged answer");
	if (reason.what == BOOT_REFUSE_UNKNOWN)
		return try_later(b, UNKNOWN, reason.text);
	if (reason.what == BOOT_REFUSE_OTHER_PROCESS)
		return try_later(b, NOBODY, "another process listens");
	return fail(b, code_of_peer(reason.code), "%s", reason.text);
}

static int take_accept(struct tcp_boot *b)
{
	unsigned char mac[HMAC_BYTES];
	const unsigned char *data = b->reader.data;
	if (b->reader.bytes != BOOT_ACCEPT_BYTES || !boot_peer_decode(data, &b->maker))
		return try_later(b, BROKEN, "the listener sent a damaged answer");
	boot_prove_answer(b->id.key, b->challenge, b->hello, data, mac);
	if (!hmac_equal(mac, data + BOOT_PEER_BYTES, HMAC_BYTES))
		return try_later(b, NOBODY, "a program that does not know the id's key listens");
	b->state = JOINED;
	b->reader.limit = FRAME_MAX_BYTES;
	b->next_who = 0;
	struct frame *part = b->part;
	b->part = NULL;
	return part ? queue(b, part) : 0;
}

/* ---- A member */

static int damaged(struct tcp_boot *b)
{
	return fail(b, CORALE_EINTERNAL,
		    "process %lld on %s sent a frame (kind %u, %u bytes) that is damaged",
		    (long long)b->maker.pid, b->maker.host, b->reader.kind, b->reader.bytes);
}

static int take_table(struct tcp_boot *b)
{
	if (b->peers || b->reader.bytes != (size_t)b->base.size * BOOT_PEER_BYTES)
		return damaged(b);
	b->peers = calloc((size_t)b->base.size, sizeof(*b->peers));
	if (!b->peers)
		return fail(b, CORALE_ENOMEM, "no memory for %d ranks' addresses", b->base.size);
	for (int i = 0; i < b->base.size; i++)
		if (!boot_peer_decode(b->reader.data + (size_t)i * BOOT_PEER_BYTES, &b->peers[i]))
			return damaged(b);
	b->state = COMPLETE;
	b->missing = 0;
	return 0;
}

static int take_all(struct tcp_boot *b)
{
	size_t bytes = (size_t)b->base.size * b->bytes;
	if (!b->is_gathering || b->state != COMPLETE || b->reader.number != b->round ||
	    b->reader.bytes != bytes)
		return damaged(b);
	if (bytes)
		memcpy(b->out, b->reader.data, bytes);
	b->is_gathering = 0;
	return 0;
}

static int take_missing(struct tcp_boot *b)
{
	if (b->reader.bytes != 8)
		return damaged(b);
	if (b->reader.number == b->round)
		b->missing = frame_get64(b->reader.data);
	return 0;
}

static int take_fail(struct tcp_boot *b)
{
	struct boot_reason reason;
	if (!b->reader.bytes || !boot_reason_decode(b->reader.data, b->reader.bytes, &reason))
		return damaged(b);
	return fail(b, code_of_peer(reason.code), "%s", reason.text);
}

static int take_frame(struct tcp_boot *b)
{
	if (b->state < JOINED && b->reader.kind == BOOT_REFUSE)
		return take_refusal(b);
	if (b->state == GREETED)
		return take_challenge(b);
	if (b->state == PROVING)
		return b->reader.kind == BOOT_ACCEPT ? take_accept(b) : damaged(b);
	switch (b->reader.kind) {
	case BOOT_TABLE:
		return take_table(b);
	case BOOT_ALL:
		return take_all(b);
	case BOOT_MISSING:
		return take_missing(b);
	case BOOT_FAIL:
		return take_fail(b);
	default:
		return damaged(b);
	}
}

/* The listener's process has closed the connection. It has the same address and process number as one of the ranks, if it is one. */
static int lost(struct tcp_boot *b)
{
	if (b->state < JOINED)
		return try_later(b, BROKEN, "the listener closed the connection before it had answered");
	for (int i = 0; b->peers && i < b->base.size; i++)
		if (b->peers[i].process == b->maker.process)
			return fail(b, CORALE_EPEER,
				    "rank %d (process %lld on %s) has died, or its connection broke", i,
				    (long long)b->maker.pid, b->maker.host);
	return fail(b, CORALE_EPEER,
		    "process %lld on %s, which made the id, has died, or its connection broke",
		    (long long)b->maker.pid, b->maker.host);
}

static int read_frames(struct tcp_boot *b)
{
	while (b->fd >= 0 && b->state != CONNECTING) {
		enum frame_status status = frame_read(&b->reader, b->fd);
		if (status == FRAME_MORE)
			return 0;
		if (status == FRAME_CLOSED)
			return lost(b);
		if (status == FRAME_NO_MEMORY)
			return fail(b, CORALE_ENOMEM, "no memory for a message of %u bytes", b->reader.bytes);
		if (status == FRAME_TOO_LONG && b->state < JOINED)
			return try_later(b, NOBODY, "another program listens");
		int ret = status == FRAME_TOO_LONG ? damaged(b) : take_frame(b);
		if (ret)
			return ret;
		frame_next(&b->reader);
	}
	return 0;
}

/* ---- Waiting */

static uint64_t others(const struct tcp_boot *b)
{
	uint64_t all = b->base.size == 64 ? ~(uint64_t)0 : ((uint64_t)1 << b->base.size) - 1;
	return all & ~((uint64_t)1 << b->base.rank);
}

/* Whom this rank waits for: "ranks 3, 5 of 8", or the listener. */
static void describe_wait(const struct tcp_boot *b, char *text, size_t bytes)
{
	char ranks[TEXT_BYTES], where[BOOT_ADDRESS_TEXT];
	uint64_t missing = b->missing & others(b);
	if (b->state >= JOINED && missing)
		snprintf(text, bytes, "rank%s %s of %d", missing & (missing - 1) ? "s" : "",
			 boot_ranks_text(missing, ranks, sizeof(ranks)), b->base.size);
	else if (b->state >= JOINED)
		snprintf(text, bytes, "other ranks of %d", b->base.size);
	else
		snprintf(text, bytes, "the process that listens at %s%s%s",
			 boot_address_text(&b->id.address, where), b->last_failure[0] ? ": " : "",
			 b->last_failure);
}

static int time_over(struct tcp_boot *b)
{
	char whom[2 * TEXT_BYTES];
	describe_wait(b, whom, sizeof(whom));
	if (b->state < COMPLETE)
		return fail(b, CORALE_ETIMEDOUT,
			    "waited %.3g s for %s; is every process started, with the same id and size?",
			    (double)b->timeout / 1e9, whom);
	return fail(b, CORALE_ETIMEDOUT, "waited %.3g s for %s in all-gather %llu", (double)b->timeout / 1e9,
		    whom, (unsigned long long)b->round);
}

static int is_done(const struct tcp_boot *b)
{
	return b->state == COMPLETE && !b->is_gathering;
}

/* Asks the listener once a second, or more often before a short deadline, so that the ranks can be named when it is over. */
static int ask_who(struct tcp_boot *b, int64_t now)
{
	int64_t often = b->timeout / 8 < SECOND ? b->timeout / 8 : SECOND;
	if (b->state < JOINED || now < b->next_who || b->writer.first)
		return 0;
	b->next_who = now + often;
	return queue(b, frame_new(BOOT_WHO, b->round, 0));
}

static int check_time(struct tcp_boot *b)
{
	char whom[2 * TEXT_BYTES];
	int64_t now = wait_now_ns();
	if (is_done(b))
		return 0;
	if (now >= b->deadline)
		return time_over(b);
	if (b->fd >= 0 && b->state < JOINED && now >= b->try_ends)
		return try_later(b, BROKEN, "the listener does not answer");
	if (now >= b->next_warn) {
		b->next_warn = now + WARN_NS;
		describe_wait(b, whom, sizeof(whom));
		log_line(LOG_WARN, b->base.rank, "bootstrap: waiting for %s (%lld s)", whom,
			 (long long)((now - b->waits_since) / SECOND));
	}
	return ask_who(b, now);
}

/* All that can be done without waiting: 0 or an error. */
static int advance(struct tcp_boot *b)
{
	int ret = 0;
	if (atomic_load(&b->is_aborted))
		return fail(b, CORALE_EABORTED, "aborted");
	if (b->state == PAUSED && wait_now_ns() >= b->next_try)
		ret = begin_connect(b);
	else if (b->state == CONNECTING)
		ret = check_connect(b);
	if (!ret)
		ret = read_frames(b);
	if (!ret)
		ret = check_time(b);
	/* A broken connection is seen by reading, which may still find why. */
	if (!ret && b->fd >= 0 && b->state != CONNECTING)
		frame_flush(&b->writer, b->fd);
	return ret;
}

static void sleep_a_little(struct tcp_boot *b)
{
	int wants_out = b->state == CONNECTING || b->writer.first != NULL;
	struct pollfd p[2] = { { .fd = b->abort_fd, .events = POLLIN },
			       { .fd = b->fd, .events = (short)(POLLIN | (wants_out ? POLLOUT : 0)) } };
	poll(p, 2, POLL_MS);
}

/* ---- The operations */

static int is_forked(const struct tcp_boot *b)
{
	return b->pid != getpid();
}

static int refuse_forked(const struct tcp_boot *b)
{
	return log_error(CORALE_ENOTSUP, b->base.rank,
			 "bootstrap: process %ld was forked from process %ld, which opened this bootstrap; "
			 "only that process can use it",
			 (long)getpid(), (long)b->pid);
}

static void restart_clock(struct tcp_boot *b)
{
	int64_t now = wait_now_ns();
	b->waits_since = now;
	b->deadline = now + b->timeout;
	b->next_warn = now + WARN_NS;
	b->next_who = now;
}

static int tcp_start(struct boot *base, const void *in, size_t bytes, void *out)
{
	struct tcp_boot *b = of(base);
	if (is_forked(b))
		return refuse_forked(b);
	if (b->error)
		return b->error;
	if (b->is_gathering)
		return log_error(
		    CORALE_EINVAL, base->rank,
		    "bootstrap: all-gather %llu has not ended; poll it before the next is started",
		    (unsigned long long)b->round);
	if (bytes > (size_t)FRAME_MAX_BYTES / (size_t)base->size)
		return log_error(
		    CORALE_EINVAL, base->rank,
		    "bootstrap: an all-gather of %zu bytes of %d ranks; expected at most %d in all", bytes,
		    base->size, FRAME_MAX_BYTES);
	struct frame *f = frame_new(BOOT_PART, b->round + 1, bytes);
	if (!f)
		return log_error(CORALE_ENOMEM, base->rank, "bootstrap: no memory for %zu bytes", bytes);
	if (bytes)
		memcpy(frame_payload(f), in, bytes);
	b->round++;
	b->is_gathering = 1;
	b->bytes = bytes;
	b->out = out;
	b->missing = 0;
	restart_clock(b);
	if (b->state >= JOINED)
		return queue(b, f);
	b->part = f;
	return 0;
}

static int tcp_poll(struct boot *base)
{
	struct tcp_boot *b = of(base);
	if (is_forked(b))
		return refuse_forked(b);
	int ret = b->error ? b->error : advance(b);
	if (ret || is_done(b))
		return ret ? ret : 1;
	sleep_a_little(b);
	ret = advance(b);
	return ret ? ret : is_done(b);
}

static void tcp_abort(struct boot *base)
{
	struct tcp_boot *b = of(base);
	uint64_t one = 1;
	if (is_forked(b))
		return;
	atomic_store(&b->is_aborted, 1);
	while (write(b->abort_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void tcp_close(struct boot *base)
{
	struct tcp_boot *b = of(base);
	if (!is_forked(b)) {
		if (b->fd >= 0 && b->state >= JOINED)
			frame_flush(&b->writer, b->fd);
		if (!b->error)
			send_leave(b, 0, "closed");
		disconnect(b);
		boot_fds_close(b->abort_fd);
	} else {
		frame_reader_free(&b->reader);
		frame_writer_free(&b->writer);
	}
	frame_free(b->part);
	free(b->peers);
	free(b);
}

static int tcp_child(struct boot *base, const int *ranks, int n, uint64_t tag, struct boot **out);

static const struct boot_ops tcp_ops = { tcp_start, tcp_poll, tcp_abort, tcp_child, tcp_close };

/* ---- Opening */

static int64_t timeout_of(const struct boot_options *o)
{
	double s = o->timeout_s > 0 ? o->timeout_s : 1800;
	return (int64_t)((s < 1e9 ? s : 1e9) * 1e9);
}

static int copy_options(struct tcp_boot *b, const struct boot_options *o)
{
	b->options = *o;
	b->options.address = NULL;
	if (!o->ifname)
		return 0;
	size_t length = strlen(o->ifname);
	if (length >= sizeof(b->ifname))
		return log_error(CORALE_EINVAL, b->base.rank,
				 "bootstrap: NCCL_SOCKET_IFNAME has %zu characters; expected less than %d",
				 length, IFNAME_BYTES);
	memcpy(b->ifname, o->ifname, length + 1);
	b->options.ifname = b->ifname;
	return 0;
}

static int open_group(const struct boot_id *id, int rank, int size, const struct boot_options *o,
		      struct boot **out)
{
	struct tcp_boot *b = calloc(1, sizeof(*b));
	if (!b)
		return log_error(CORALE_ENOMEM, rank, "bootstrap: no memory");
	b->base = (struct boot){ .ops = &tcp_ops, .rank = rank, .size = size };
	b->id = *id;
	b->pid = getpid();
	b->fd = b->abort_fd = -1;
	b->pause = FIRST_PAUSE;
	b->timeout = timeout_of(o);
	b->stale_at = wait_now_ns() + (b->timeout / 2 < STALE_NS ? b->timeout / 2 : STALE_NS);
	restart_clock(b);
	int ret = copy_options(b, o);
	if (!ret)
		ret = boot_listener_start(&b->options, &b->self);
	if (!ret && rank == 0 && id->flags)
		ret = boot_listener_expect(&b->options, id);
	if (!ret) {
		b->abort_fd = boot_fds_event();
		if (b->abort_fd < 0)
			ret = log_error(CORALE_ESYSTEM, rank, "bootstrap: cannot make an event (eventfd): %s",
					strerror(errno));
	}
	if (ret) {
		free(b);
		return ret;
	}
	*out = &b->base;
	return 0;
}

static int is_member_list(const struct boot *b, const int *ranks, int n)
{
	uint64_t seen = 0;
	if (n < 1 || n > b->size)
		return 0;
	for (int i = 0; i < n; i++) {
		if (ranks[i] < 0 || ranks[i] >= b->size || (seen >> ranks[i] & 1))
			return 0;
		seen |= (uint64_t)1 << ranks[i];
	}
	return (int)(seen >> b->rank & 1);
}

static int tcp_child(struct boot *base, const int *ranks, int n, uint64_t tag, struct boot **out)
{
	struct tcp_boot *b = of(base);
	struct boot_id id = { .flags = BOOT_ID_CHILD };
	if (is_forked(b))
		return refuse_forked(b);
	if (!b->peers)
		return log_error(CORALE_EINVAL, base->rank,
				 "bootstrap: a child before the parent has been connected");
	if (!is_member_list(base, ranks, n))
		return log_error(CORALE_EINVAL, base->rank,
				 "bootstrap: a child of %d ranks; expected different ranks of 0 to %d, this "
				 "one among them",
				 n, base->size - 1);
	int rank = 0;
	while (ranks[rank] != base->rank)
		rank++;
	id.address = b->peers[ranks[0]].listener;
	id.process = b->peers[ranks[0]].process;
	boot_child_key(b->id.key, ranks, n, tag, id.key);
	id.name = boot_name_of_key(id.key);
	return open_group(&id, rank, n, &b->options, out);
}

static int check_id(const unsigned char bytes[BOOT_ID_BYTES], int rank, struct boot_id *id)
{
	switch (boot_id_decode(bytes, id)) {
	case BOOT_ID_GOOD:
		return 0;
	case BOOT_ID_OTHER_LIBRARY:
		return log_error(
		    CORALE_EINVAL, rank,
		    "bootstrap: this id was made by another NCCL library: is every process started "
		    "under corale-run?");
	case BOOT_ID_OTHER_VERSION:
		return log_error(
		    CORALE_ENOTSUP, rank,
		    "bootstrap: this id was made by a Corale with version %u of the protocol, this one "
		    "speaks version %d; all processes must use the same Corale",
		    boot_id_version(bytes), BOOT_PROTOCOL);
	default:
		return log_error(CORALE_EINVAL, rank,
				 "bootstrap: this id is damaged; all %d bytes must be passed on unchanged",
				 BOOT_ID_BYTES);
	}
}

int boot_tcp_open(const unsigned char id[BOOT_ID_BYTES], int rank, int size, const struct boot_options *o,
		  struct boot **out)
{
	static const struct boot_options defaults;
	struct boot_id decoded;
	int ret = check_id(id, rank, &decoded);
	if (ret)
		return ret;
	if (size < 1 || rank < 0 || rank >= size)
		return log_error(
		    CORALE_EINVAL, -1,
		    "bootstrap: rank %d of %d; expected 1 rank or more, and a rank from 0 to size - 1", rank,
		    size);
	if (size > BOOT_MAX_RANKS)
		return log_error(CORALE_ENOTSUP, rank, "bootstrap: %d ranks; at most %d are supported", size,
				 BOOT_MAX_RANKS);
	return open_group(&decoded, rank, size, o ? o : &defaults, out);
}

/* ---- Ids */

static int create_at(const struct boot_options *o, struct boot_id *id)
{
	static const char word[] = "address";
	struct sha256 s;
	id->flags = BOOT_ID_ADDRESS;
	sha256_start(&s);
	sha256_add(&s, word, sizeof(word));
	sha256_add(&s, o->address, strlen(o->address));
	sha256_end(&s, id->key);
	id->name = boot_name_of_key(id->key);
	return boot_address_parse(o->address, o->family, &id->address);
}

static int create_here(const struct boot_options *o, struct boot_id *id)
{
	struct boot_peer self;
	int ret = boot_listener_start(o, &self);
	if (!ret)
		ret = boot_random(id->key, sizeof(id->key));
	if (ret)
		return ret;
	id->address = self.listener;
	id->process = self.process;
	id->name = boot_name_of_key(id->key);
	return boot_listener_expect(o, id);
}

int boot_id_create(const struct boot_options *o, unsigned char out[BOOT_ID_BYTES])
{
	static const struct boot_options defaults;
	struct boot_id id = { .flags = 0 };
	if (!o)
		o = &defaults;
	int ret = o->address && o->address[0] ? create_at(o, &id) : create_here(o, &id);
	if (!ret)
		boot_id_encode(&id, out);
	return ret;
}
