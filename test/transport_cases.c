#include "transport_cases.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"

enum { LANES = 3, ROUNDS = 12, MOST = 3 << 20 };

static const struct wait_policy patience = { .spin_ns = 20000, .timeout_ns = 20000000000 };

/* Ranks that are not cmocka's own thread cannot use its assertions. */
#define CHECK(condition)                                                                                     \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
			abort();                                                                             \
		}                                                                                            \
	} while (0)

void cases_on_control(void *ctx, int peer, const void *message, size_t bytes)
{
	struct cases_rank *me = ctx;
	CHECK(bytes == 4 + (size_t)peer);
	CHECK(*(const unsigned char *)message == peer);
	me->control_sum += peer + 1;
	me->controls++;
}

void cases_on_failure(void *ctx, int peer, int code, const char *reason)
{
	struct cases_rank *me = ctx;
	CHECK(code == CORALE_EPEER && reason && *reason);
	me->failed_peer = peer;
	me->failures++;
}

static _Thread_local struct cases_rank *self;

static int poll_done(void *arg)
{
	struct transport_request *request = arg;
	CHECK(self->ops->progress(self->t) >= 0);
	return atomic_load_explicit(&request->done, memory_order_acquire);
}

static int finish(struct transport_request *request)
{
	CHECK(wait_until(&patience, poll_done, request) == 1);
	return request->status;
}

static size_t size_of(int from, int to, int lane, int round)
{
	static const size_t sizes[] = { 0, 1, 31, 4097, 8192, 70001, 1 << 20, 5, MOST, 65536 };
	return sizes[(from * 7 + to * 3 + lane * 5 + round) % 10];
}

static unsigned char byte_of(int from, int lane, int round, size_t i)
{
	return (unsigned char)(i * 31 + (size_t)(from * 101 + lane * 17 + round * 7));
}

static void fill(unsigned char *buf, size_t bytes, int from, int lane, int round)
{
	for (size_t i = 0; i < bytes; i++)
		buf[i] = byte_of(from, lane, round, i);
}

static void check_filled(const unsigned char *buf, size_t bytes, int from, int lane, int round)
{
	for (size_t i = 0; i < bytes; i++)
		CHECK(buf[i] == byte_of(from, lane, round, i));
}

static void make_header(unsigned char *header, int from, int to, int lane, int round)
{
	memset(header, 0, TRANSPORT_HEADER_BYTES);
	int words[4] = { from, to, lane, round };
	memcpy(header, words, sizeof(words));
}

struct edge {
	struct transport_request send[ROUNDS], recv[ROUNDS];
	unsigned char *out[ROUNDS], *in[ROUNDS];
};

static void send_all(struct edge *e, int rank, int peer, int lane)
{
	unsigned char header[TRANSPORT_HEADER_BYTES];
	for (int k = 0; k < ROUNDS; k++) {
		size_t bytes = size_of(rank, peer, lane, k);
		e->out[k] = malloc(bytes + 1);
		fill(e->out[k], bytes, rank, lane, k);
		make_header(header, rank, peer, lane, k);
		CHECK(self->ops->send(self->t, peer, lane, header, bytes ? e->out[k] : NULL, bytes,
				      &e->send[k]) == 0);
	}
}

static void recv_all(struct edge *e, int rank, int peer, int lane)
{
	for (int k = 0; k < ROUNDS; k++) {
		size_t bytes = size_of(peer, rank, lane, k);
		e->in[k] = malloc(bytes + 1);
		CHECK(self->ops->recv(self->t, peer, lane, e->in[k], bytes, &e->recv[k]) == 0);
	}
}

static void finish_edge(struct edge *e, int rank, int peer, int lane)
{
	unsigned char header[TRANSPORT_HEADER_BYTES];
	for (int k = 0; k < ROUNDS; k++) {
		size_t bytes = size_of(peer, rank, lane, k);
		CHECK(finish(&e->recv[k]) == 0);
		CHECK(e->recv[k].bytes == bytes);
		make_header(header, peer, rank, lane, k);
		CHECK(memcmp(header, e->recv[k].header, sizeof(header)) == 0);
		check_filled(e->in[k], bytes, peer, lane, k);
		CHECK(finish(&e->send[k]) == 0);
		free(e->in[k]);
		free(e->out[k]);
	}
}

/* All pairs and lanes at once; half of the ranks post their recvs after their sends. */
static void exchange(void)
{
	int rank = self->rank, size = self->size;
	struct edge *edges = calloc((size_t)size * LANES, sizeof(*edges));

	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < size * LANES; i++) {
			if ((rank % 2) != late)
				send_all(&edges[i], rank, i / LANES, i % LANES);
			else
				recv_all(&edges[i], rank, i / LANES, i % LANES);
		}
	}
	for (int i = 0; i < size * LANES; i++)
		finish_edge(&edges[i], rank, i / LANES, i % LANES);
	free(edges);
}

static void one_way(int rank, size_t bytes, size_t capacity, int first)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = "told in any case";
	unsigned char *buf = calloc(1, (bytes > capacity ? bytes : capacity) + 1);
	struct transport_request request;

	if (rank == !first)
		self->barrier(self);
	if (rank == 0) {
		CHECK(self->ops->send(self->t, 1, 0, header, buf, bytes, &request) == 0);
		if (first == 0)
			self->barrier(self);
		CHECK(finish(&request) == 0);
	} else {
		CHECK(self->ops->recv(self->t, 0, 0, buf, capacity, &request) == 0);
		if (first == 1)
			self->barrier(self);
		CHECK(finish(&request) == (bytes > capacity ? CORALE_EMISMATCH : 0));
		CHECK(request.bytes == bytes);
		CHECK(memcmp(request.header, header, sizeof(header)) == 0);
	}
	free(buf);
}

/* Sizes that disagree: the header comes, the error is named, the lane goes on. */
static void disagree(void)
{
	static const size_t sizes[] = { 0, 1, 4000, 100000, 2 << 20 };
	for (int first = 0; first < 2; first++)
		for (int i = 0; i < 5; i++)
			for (int k = 0; k < 5; k++)
				one_way(self->rank, sizes[i], sizes[k], first);
}

static int has_controls(void *arg)
{
	CHECK(self->ops->progress(self->t) >= 0);
	return self->controls == *(int *)arg;
}

static void controls(void)
{
	int rank = self->rank, size = self->size;
	unsigned char message[TRANSPORT_CONTROL_BYTES + 1] = { (unsigned char)rank };
	int expected = 5 * size;
	for (int k = 0; k < 5; k++)
		for (int r = 0; r < size; r++)
			CHECK(self->ops->control(self->t, r, message, 4 + (size_t)rank) == 0);
	CHECK(wait_until(&patience, has_controls, &expected) == 1);
	CHECK(self->control_sum == 5 * size * (size + 1) / 2);
	CHECK(self->ops->control(self->t, 0, message, sizeof(message)) == CORALE_EINVAL);
	self->barrier(self);
}

/* What waits is done with the code given, what comes later too, and peers are none the wiser. */
static void fail_pending(void)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
	static unsigned char big[2][MOST];
	struct transport_request recv, send, later;

	if (self->rank == 0) {
		CHECK(self->ops->recv(self->t, 1, 1, big[0], MOST, &recv) == 0);
		CHECK(self->ops->send(self->t, 1, 2, header, big[1], MOST, &send) == 0);
		self->ops->fail(self->t, CORALE_EABORTED);
		CHECK(finish(&recv) == CORALE_EABORTED);
		CHECK(finish(&send) == CORALE_EABORTED);
		CHECK(self->ops->recv(self->t, 1, 1, big[0], MOST, &later) == CORALE_EABORTED);
		CHECK(finish(&later) == CORALE_EABORTED);
		CHECK(self->ops->send(self->t, 1, 1, header, big[0], 4, &later) == CORALE_EABORTED);
		CHECK(finish(&later) == CORALE_EABORTED);
	}
	self->barrier(self);
	CHECK(self->failures == 0);
}

static int has_failed(void *arg)
{
	CHECK(self->ops->progress(self->t) >= 0);
	return self->failures > 0;
}

/* A rank that leaves too early is named to the one that still waits for it. */
static void depart(void)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 }, buf[64] = { 0 };
	struct transport_request recv, later;

	if (self->rank == 1) {
		self->barrier(self);
		self->ops->close(self->t);
		self->t = NULL;
		self->barrier(self);
		return;
	}
	CHECK(self->ops->recv(self->t, 1, 0, buf, sizeof(buf), &recv) == 0);
	self->barrier(self);
	CHECK(finish(&recv) == CORALE_EPEER);
	CHECK(wait_until(&patience, has_failed, NULL) == 1);
	CHECK(self->failures == 1 && self->failed_peer == 1);
	self->barrier(self);
	CHECK(self->ops->send(self->t, 1, 0, header, buf, 8, &later) == CORALE_EPEER);
	CHECK(finish(&later) == CORALE_EPEER);
	self->ops->progress(self->t);
	CHECK(self->failures == 1);
}

static void misuse(void)
{
	int size = self->size;
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 }, buf[8] = { 0 };
	struct transport_request request;
	char text[200] = "";

	CHECK(self->ops->send(self->t, size, 0, header, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(self->ops->send(self->t, -1, 0, header, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(self->ops->recv(self->t, 0, TRANSPORT_MAX_LANES, buf, 8, &request) == CORALE_EINVAL &&
	      request.done);
	CHECK(self->ops->recv(self->t, 0, -1, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(self->ops->control(self->t, size, buf, 8) == CORALE_EINVAL);
	self->ops->describe(self->t, 0, text, sizeof(text));
	CHECK(text[0]);
	CHECK(self->ops->threaded(self->t) == 0 || self->ops->threaded(self->t) == 1);
}

static const struct {
	const char *name;
	void (*body)(void);
	int ranks;
} cases[] = {
	{ "all pairs, lanes and sizes", exchange, 0 },
	{ "sizes that disagree", disagree, 2 },
	{ "control messages", controls, 0 },
	{ "fail", fail_pending, 2 },
	{ "departure", depart, 2 },
	{ "misuse", misuse, 0 },
};

int cases_count(void)
{
	return sizeof(cases) / sizeof(cases[0]);
}

const char *cases_name(int i)
{
	return cases[i].name;
}

int cases_ranks(int i)
{
	return cases[i].ranks;
}

void cases_run(int i, struct cases_rank *me)
{
	self = me;
	cases[i].body();
}
