/* Every transport that can run among threads of one process: order, sizes, mismatch, control, failure, departure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "settings.h"
#include "transport.h"
#include "wait.h"

enum { MAX_RANKS = 5, LANES = 3, ROUNDS = 12, MOST = 3 << 20 };

static const struct wait_policy patience = { .spin_ns = 20000, .timeout_ns = 20000000000 };
static struct settings settings;
static const struct transport_ops *ops;

/* Threads that gather like processes would. */
struct world {
	int size;
	pthread_barrier_t barrier;
	unsigned char *gathered;
	void (*body)(struct transport *t, int rank, int size);
};

struct rank_thread {
	struct world *world;
	int rank;
	pthread_t thread;
	struct transport *t;
	_Atomic int controls, control_sum, failures, failed_peer;
};

static _Thread_local struct rank_thread *self;

/* Threads other than cmocka's own cannot use its assertions. */
#define CHECK(condition)                                                                                     \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
			abort();                                                                             \
		}                                                                                            \
	} while (0)

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct rank_thread *me = ctx;
	struct world *w = me->world;

	if (pthread_barrier_wait(&w->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		w->gathered = malloc(bytes * (size_t)w->size);
	pthread_barrier_wait(&w->barrier);
	memcpy(w->gathered + bytes * (size_t)me->rank, in, bytes);
	pthread_barrier_wait(&w->barrier);
	memcpy(out, w->gathered, bytes * (size_t)w->size);
	if (pthread_barrier_wait(&w->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		free(w->gathered);
	return 0;
}

static void on_control(void *ctx, int peer, const void *message, size_t bytes)
{
	struct rank_thread *me = ctx;
	CHECK(bytes == 4 + (size_t)peer);
	CHECK(*(const unsigned char *)message == peer);
	me->control_sum += peer + 1;
	me->controls++;
}

static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	struct rank_thread *me = ctx;
	CHECK(code == CORALE_EPEER && reason && *reason);
	me->failed_peer = peer;
	me->failures++;
}

static void barrier(void)
{
	pthread_barrier_wait(&self->world->barrier);
}

static void *run_rank(void *arg)
{
	static _Atomic uint64_t comm_ids = 1;
	unsigned char needed[MAX_RANKS];
	self = arg;
	struct world *w = self->world;
	uint64_t id = comm_ids, ids[MAX_RANKS];

	allgather(self, &id, sizeof(id), ids);
	memset(needed, 1, sizeof(needed));
	struct transport_params params = { .rank = self->rank,
					   .size = w->size,
					   .comm_id = ids[0] * 1000,
					   .needed = needed,
					   .allgather = allgather,
					   .allgather_ctx = self,
					   .settings = &settings,
					   .on_control = on_control,
					   .on_failure = on_failure,
					   .handler_ctx = self };
	CHECK(ops->open(ops, &params, &self->t) == 0);
	comm_ids++;
	w->body(self->t, self->rank, w->size);
	if (self->t)
		ops->close(self->t);
	return NULL;
}

static void run(int size, void (*body)(struct transport *t, int rank, int size))
{
	struct world w = { .size = size, .body = body };
	struct rank_thread ranks[MAX_RANKS];

	memset(ranks, 0, sizeof(ranks));
	pthread_barrier_init(&w.barrier, NULL, (unsigned)size);
	for (int r = 0; r < size; r++) {
		ranks[r].world = &w;
		ranks[r].rank = r;
		assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]), 0);
	}
	for (int r = 0; r < size; r++)
		pthread_join(ranks[r].thread, NULL);
	pthread_barrier_destroy(&w.barrier);
}

static int poll_done(void *arg)
{
	struct transport_request *request = arg;
	CHECK(ops->progress(self->t) >= 0);
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

static void send_all(struct transport *t, struct edge *e, int rank, int peer, int lane)
{
	unsigned char header[TRANSPORT_HEADER_BYTES];
	for (int k = 0; k < ROUNDS; k++) {
		size_t bytes = size_of(rank, peer, lane, k);
		e->out[k] = malloc(bytes + 1);
		fill(e->out[k], bytes, rank, lane, k);
		make_header(header, rank, peer, lane, k);
		CHECK(ops->send(t, peer, lane, header, bytes ? e->out[k] : NULL, bytes, &e->send[k]) == 0);
	}
}

static void recv_all(struct transport *t, struct edge *e, int rank, int peer, int lane)
{
	for (int k = 0; k < ROUNDS; k++) {
		size_t bytes = size_of(peer, rank, lane, k);
		e->in[k] = malloc(bytes + 1);
		CHECK(ops->recv(t, peer, lane, e->in[k], bytes, &e->recv[k]) == 0);
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
static void exchange(struct transport *t, int rank, int size)
{
	struct edge *edges = calloc((size_t)size * LANES, sizeof(*edges));

	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < size * LANES; i++) {
			if ((rank % 2) != late)
				send_all(t, &edges[i], rank, i / LANES, i % LANES);
			else
				recv_all(t, &edges[i], rank, i / LANES, i % LANES);
		}
	}
	for (int i = 0; i < size * LANES; i++)
		finish_edge(&edges[i], rank, i / LANES, i % LANES);
	free(edges);
}

static void test_exchange(void **state)
{
	run(1, exchange);
	run(2, exchange);
	run(MAX_RANKS, exchange);
}

static void one_way(struct transport *t, int rank, size_t bytes, size_t capacity, int first)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = "told in any case";
	unsigned char *buf = calloc(1, (bytes > capacity ? bytes : capacity) + 1);
	struct transport_request request;

	if (rank == !first)
		barrier();
	if (rank == 0) {
		CHECK(ops->send(t, 1, 0, header, buf, bytes, &request) == 0);
		if (first == 0)
			barrier();
		CHECK(finish(&request) == 0);
	} else {
		CHECK(ops->recv(t, 0, 0, buf, capacity, &request) == 0);
		if (first == 1)
			barrier();
		CHECK(finish(&request) == (bytes > capacity ? CORALE_EMISMATCH : 0));
		CHECK(request.bytes == bytes);
		CHECK(memcmp(request.header, header, sizeof(header)) == 0);
	}
	free(buf);
}

/* Sizes that disagree: the header comes, the error is named, the lane goes on. */
static void disagree(struct transport *t, int rank, int size)
{
	static const size_t sizes[] = { 0, 1, 4000, 100000, 2 << 20 };
	for (int first = 0; first < 2; first++)
		for (int i = 0; i < 5; i++)
			for (int k = 0; k < 5; k++)
				one_way(t, rank, sizes[i], sizes[k], first);
}

static void test_sizes_that_disagree(void **state)
{
	run(2, disagree);
}

static int has_controls(void *arg)
{
	CHECK(ops->progress(self->t) >= 0);
	return self->controls == *(int *)arg;
}

static void controls(struct transport *t, int rank, int size)
{
	unsigned char message[TRANSPORT_CONTROL_BYTES + 1] = { (unsigned char)rank };
	int expected = 5 * size;
	for (int k = 0; k < 5; k++)
		for (int r = 0; r < size; r++)
			CHECK(ops->control(t, r, message, 4 + (size_t)rank) == 0);
	CHECK(wait_until(&patience, has_controls, &expected) == 1);
	CHECK(self->control_sum == 5 * size * (size + 1) / 2);
	CHECK(ops->control(t, 0, message, sizeof(message)) == CORALE_EINVAL);
	barrier();
}

static void test_control(void **state)
{
	run(MAX_RANKS, controls);
}

/* What waits is done with the code given, what comes later too, and peers are none the wiser. */
static void fail_pending(struct transport *t, int rank, int size)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
	static unsigned char big[2][MOST];
	struct transport_request recv, send, later;

	if (rank == 0) {
		CHECK(ops->recv(t, 1, 1, big[0], MOST, &recv) == 0);
		CHECK(ops->send(t, 1, 2, header, big[1], MOST, &send) == 0);
		(ops->fail)(t, CORALE_EABORTED);
		CHECK(finish(&recv) == CORALE_EABORTED);
		CHECK(finish(&send) == CORALE_EABORTED);
		CHECK(ops->recv(t, 1, 1, big[0], MOST, &later) == CORALE_EABORTED);
		CHECK(finish(&later) == CORALE_EABORTED);
		CHECK(ops->send(t, 1, 1, header, big[0], 4, &later) == CORALE_EABORTED);
		CHECK(finish(&later) == CORALE_EABORTED);
	}
	barrier();
	CHECK(self->failures == 0);
}

static void test_fail(void **state)
{
	run(2, fail_pending);
}

static int has_failed(void *arg)
{
	CHECK(ops->progress(self->t) >= 0);
	return self->failures > 0;
}

/* A rank that leaves too early is named to the one that still waits for it. */
static void depart(struct transport *t, int rank, int size)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 }, buf[64] = { 0 };
	struct transport_request recv, later;

	if (rank == 1) {
		barrier();
		ops->close(t);
		self->t = NULL;
		barrier();
		return;
	}
	CHECK(ops->recv(t, 1, 0, buf, sizeof(buf), &recv) == 0);
	barrier();
	CHECK(finish(&recv) == CORALE_EPEER);
	CHECK(wait_until(&patience, has_failed, NULL) == 1);
	CHECK(self->failures == 1 && self->failed_peer == 1);
	barrier();
	CHECK(ops->send(t, 1, 0, header, buf, 8, &later) == CORALE_EPEER);
	CHECK(finish(&later) == CORALE_EPEER);
	ops->progress(t);
	CHECK(self->failures == 1);
}

static void test_departure(void **state)
{
	run(2, depart);
}

static void misuse(struct transport *t, int rank, int size)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 }, buf[8] = { 0 };
	struct transport_request request;
	char text[200] = "";

	CHECK(ops->send(t, size, 0, header, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(ops->send(t, -1, 0, header, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(ops->recv(t, 0, TRANSPORT_MAX_LANES, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(ops->recv(t, 0, -1, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(ops->control(t, size, buf, 8) == CORALE_EINVAL);
	ops->describe(t, 0, text, sizeof(text));
	CHECK(text[0]);
	CHECK(ops->threaded(t) == 0 || ops->threaded(t) == 1);
}

static void test_misuse(void **state)
{
	run(2, misuse);
	ops->close(NULL);
}

/* A transport, and for UCX the way of large messages. */
struct variant {
	const char *name;
	const struct transport_ops *ops;
	const char *message;
};

static const struct variant variants[] = {
	{ "inproc", &transport_inproc, "auto" },       { "ucx by am", &transport_ucx, "am" },
	{ "ucx by tag", &transport_ucx, "tag" },       { "ucx by put", &transport_ucx, "put" },
	{ "ucx as measured", &transport_ucx, "auto" },
};

static int use(void **state)
{
	const struct variant *variant = *state;
	ops = variant->ops;
	snprintf(settings.ucx_message, sizeof(settings.ucx_message), "%s", variant->message);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*body)(void **state);
	} cases[] = {
		{ "all pairs, lanes and sizes", test_exchange },
		{ "sizes that disagree", test_sizes_that_disagree },
		{ "control messages", test_control },
		{ "fail", test_fail },
		{ "departure", test_departure },
		{ "misuse", test_misuse },
	};
	enum { CASES = sizeof(cases) / sizeof(cases[0]), VARIANTS = sizeof(variants) / sizeof(variants[0]) };
	static char names[CASES * VARIANTS][80];
	static char *none[] = { NULL };
	struct CMUnitTest tests[CASES * VARIANTS] = { { 0 } }; /* cmocka passes over the rest */
	char why_not[200];

#ifdef __SANITIZE_THREAD__
	/* UCX's hooks of memory calls crash under this sanitizer; UCX reads its variables when it is loaded. */
	if (!getenv("UCX_MEM_EVENTS")) {
		setenv("UCX_MEM_EVENTS", "n", 1);
		setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
		execv("/proc/self/exe", argv);
	}
#endif
	if (settings_parse(none, &settings))
		return 1;
	for (int i = 0; i < CASES * VARIANTS; i++) {
		const struct variant *variant = &variants[i / CASES];
		if (!variant->ops->available(&settings, why_not, sizeof(why_not)))
			break;
		snprintf(names[i], sizeof(names[i]), "%s: %s", variant->name, cases[i % CASES].name);
		tests[i] = (struct CMUnitTest){ .name = names[i],
						.test_func = cases[i % CASES].body,
						.setup_func = use,
						.initial_state = (void *)variant };
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
