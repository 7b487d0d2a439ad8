/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proxy between threads, without a GPU: connections that both ends open when they like, while messages are under way; and what a communicator of
 * very many ranks costs before its first call.
 */
#include <pthread.h>
#include <sched.h>

#include "test/helpers/unit.h"
#include "base/settings.h"
#include "base/wait.h"
#include "test/helpers/transport_inproc.h"
#include "net/slot_front.h"
#include "net/link.h"
#include "net/proxy.h"

enum {
	RANKS = 4,
	RAILS = 2,
	CONNECTIONS = 10,
	ENDS = (RANKS - 1) * CONNECTIONS * 2,
	MESSAGES = 40,
	LIMIT_S = 60
};

static struct settings settings;

/* What a kernel keeps of an end. */
struct end {
	int peer;
	enum remote_direction direction;
	uint32_t index;
	remote_offset offset; /* 0: not open */
	uint64_t messages;
};

struct world {
	pthread_barrier_t barrier;
	unsigned char *gathered;
	uint64_t comm_id;
};

struct rank {
	struct world *world;
	int rank, faults;
	uint64_t seed;
	int peers[RANKS - 1];
	struct transport *rails[RAILS];
	struct remote remote;
	struct proxy *proxy;
	struct end ends[ENDS];
};

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct rank *me = ctx;
	struct world *w = me->world;
	if (pthread_barrier_wait(&w->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		w->gathered = malloc(bytes * RANKS);
	pthread_barrier_wait(&w->barrier);
	memcpy(w->gathered + bytes * (size_t)me->rank, in, bytes);
	pthread_barrier_wait(&w->barrier);
	memcpy(out, w->gathered, bytes * RANKS);
	if (pthread_barrier_wait(&w->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		free(w->gathered);
	return 0;
}

static void on_control(void *ctx, int peer, const void *message, size_t bytes)
{
}

static void on_failure(void *ctx, int peer, int code, const char *reason)
{
}

static unsigned draw(struct rank *me, unsigned below)
{
	me->seed = me->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(me->seed >> 33) % below;
}

/* ---- What kernels do --------------------------------------------------------------------------------------- */

static uint64_t stamp(int from, int to, uint32_t index, uint64_t message)
{
	return ((uint64_t)from << 8 | (uint64_t)to) << 48 | (uint64_t)index << 32 | message;
}

static uint64_t bytes_of(const struct remote_slots *s, uint64_t message)
{
	return message % 3 ? s->bytes : sizeof(uint64_t);
}

static int post(struct rank *me, struct end *e)
{
	const struct remote_slots *s = remote_slots_of(&me->remote, e->index);
	struct remote_words *words = remote_words_at(&me->remote, e->offset);
	const uint64_t n = e->messages, bytes = bytes_of(s, n),
		       value = stamp(me->rank, me->peers[e->peer], e->index, n);
	if (n == MESSAGES || n >= __atomic_load_n(&words->free, __ATOMIC_ACQUIRE) + s->depth)
		return 0;
	memcpy(remote_data_at(&me->remote, e->index, e->offset, n) + bytes - sizeof value, &value,
	       sizeof value);
	*remote_header_at(&me->remote, e->offset, s, n) =
	    (struct remote_header){ .number = n + 1, .signature = value, .bytes = bytes };
	__atomic_store_n(&words->posted, ++e->messages, __ATOMIC_RELEASE);
	return 1;
}

static int take(struct rank *me, struct end *e)
{
	const struct remote_slots *s = remote_slots_of(&me->remote, e->index);
	const uint64_t n = e->messages, bytes = bytes_of(s, n),
		       expected = stamp(me->peers[e->peer], me->rank, e->index, n);
	const void *front = remote_header_at(&me->remote, e->offset, s, n);
	unsigned char few[REMOTE_FEW_BYTES];
	struct remote_header h;
	uint64_t value;
	if (n == MESSAGES || slot_front_read(front, n + 1, &h, few) == FRONT_NOTHING)
		return 0;
	memcpy(&value, remote_data_at(&me->remote, e->index, e->offset, n) + bytes - sizeof value,
	       sizeof value);
	me->faults += value != expected || h.signature != expected || h.bytes != bytes;
	if (bytes == sizeof value)
		me->faults += memcmp(few, &value, sizeof value) != 0;
	__atomic_store_n(&remote_words_at(&me->remote, e->offset)->taken, ++e->messages, __ATOMIC_RELEASE);
	return 1;
}

static void move_ends(struct rank *me, int *left)
{
	*left = 0;
	sched_yield();
	for (int i = 0; i < ENDS; i++) {
		struct end *e = &me->ends[i];
		for (int more = e->offset != 0; more;)
			more = e->direction == REMOTE_OUT ? post(me, e) : take(me, e);
		*left += e->messages < MESSAGES;
	}
}

/* ---- Ranks ------------------------------------------------------------------------------------------------ */

static void open_rails(struct rank *me, const struct transport_row *row)
{
	static const unsigned char needed[RANKS] = { 1, 1, 1, 1 };
	const corale_bootstrap bootstrap = { me->rank, RANKS, me, allgather };
	for (int rail = 0; rail < RAILS; rail++) {
		const struct transport_params params = {
			.rank = me->rank,
			.size = RANKS,
			.comm_id = me->world->comm_id + (uint64_t)rail,
			.rail = rail,
			.needed = needed,
			.settings = &settings,
			.slots = { .depth = 2, .bytes = 4096, .cap = SIZE_MAX },
			.on_control = on_control,
			.on_failure = on_failure
		};
		if (transport_open(row, &params, &bootstrap, &me->rails[rail]))
			abort();
	}
}

static void make_ends(struct rank *me)
{
	int n = 0;
	for (int peer = 0; peer < RANKS - 1; peer++)
		for (uint32_t index = 0; index < CONNECTIONS; index++)
			for (int d = REMOTE_OUT; d <= REMOTE_IN; d++)
				me->ends[n++] =
				    (struct end){ .peer = peer,
						  .direction = (enum remote_direction)d,
						  .index = index * REMOTE_CONNECTIONS / CONNECTIONS };
	for (int i = ENDS - 1; i > 0; i--) {
		const unsigned k = draw(me, (unsigned)i + 1);
		const struct end other = me->ends[k];
		me->ends[k] = me->ends[i];
		me->ends[i] = other;
	}
}

static void make_proxy(struct rank *me)
{
	struct proxy_params params = { .nrails = RAILS, .ranks = me->peers, .rank = me->rank };
	for (int r = 0, n = 0; r < RANKS; r++)
		if (r != me->rank)
			me->peers[n++] = r;
	me->remote = (struct remote){ .slots = { { 1024, 4 }, { 512, 2 }, { 640, 2 } }, .peers = RANKS - 1 };
	const size_t bytes = REMOTE_LINE + ENDS * remote_end_bytes(&me->remote.slots[REMOTE_OF_PLANS]);
	me->remote.memory = calloc(1, bytes);
	remote_set_data(&me->remote, me->remote.memory);
	params.remote = me->remote;
	params.bytes = bytes;
	memcpy(params.rails, me->rails, sizeof me->rails);
	if (!me->remote.memory || proxy_open(&params, &me->proxy))
		abort();
}

static void open_one(struct rank *me, struct end *e)
{
	me->faults += proxy_open_end(me->proxy, e->peer, e->direction, e->index, &e->offset) != 0;
}

static void run_messages(struct rank *me)
{
	const int64_t begin = wait_now_ns();
	int left = 1;
	proxy_expect(me->proxy);
	for (int i = 0; i < ENDS; i++) {
		for (unsigned pause = draw(me, 3) ? 0 : draw(me, 20); pause; pause--)
			move_ends(me, &left);
		open_one(me, &me->ends[i]);
	}
	while (left && wait_now_ns() - begin < LIMIT_S * 1000000000l)
		move_ends(me, &left);
	me->faults += left;
	proxy_unexpect(me->proxy, 0);
}

static void close_rank(struct rank *me)
{
	proxy_stop(me->proxy, 1000000000);
	for (int rail = 0; rail < RAILS; rail++)
		transport_close(me->rails[rail]);
	pthread_barrier_wait(&me->world->barrier);
	me->faults += !proxy_free(me->proxy); /* nobody writes there any more */
	free(me->remote.memory);
}

static void *run_rank(void *arg)
{
	struct rank *me = arg;
	open_rails(me, &transport_inproc);
	make_proxy(me);
	make_ends(me);
	run_messages(me);
	pthread_barrier_wait(&me->world->barrier);
	close_rank(me);
	return NULL;
}

static void run_world(void *(*body)(void *), uint64_t seed)
{
	struct world w = { .comm_id = 100 + seed * RAILS };
	struct rank *ranks = calloc(RANKS, sizeof *ranks);
	pthread_t threads[RANKS];
	int faults = 0;
	assert_non_null(ranks);
	pthread_barrier_init(&w.barrier, NULL, RANKS);
	for (int r = 0; r < RANKS; r++) {
		ranks[r].world = &w;
		ranks[r].rank = r;
		ranks[r].seed = seed * RANKS + (uint64_t)r;
		assert_int_equal(pthread_create(&threads[r], NULL, body, &ranks[r]), 0);
	}
	for (int r = 0; r < RANKS; r++) {
		pthread_join(threads[r], NULL);
		faults += ranks[r].faults;
	}
	pthread_barrier_destroy(&w.barrier);
	free(ranks);
	assert_int_equal(faults, 0);
}

/* Each rank opens the ends of its connections in an order of its own, while others already carry messages. */
UNIT_TEST(test_order)
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		run_world(run_rank, seed);
}

/* One end is never opened: what is posted to it stays, and the memory is free when all have closed. */
static void *run_half(void *arg)
{
	struct rank *me = arg;
	open_rails(me, &transport_inproc);
	make_proxy(me);
	struct end e = { .peer = 0,
			 .direction = me->rank % 2 ? REMOTE_IN : REMOTE_OUT,
			 .index = (uint32_t)me->rank };
	open_one(me, &e);
	if (e.direction == REMOTE_OUT)
		me->faults += !post(me, &e);
	else
		me->faults += take(me, &e);
	pthread_barrier_wait(&me->world->barrier);
	close_rank(me);
	return NULL;
}

UNIT_TEST(test_one_end)
{
	run_world(run_half, 50);
}

/* ---- Very many ranks --------------------------------------------------------------------------------------- */

static long sends, recvs, looks;

struct counted {
	struct link base;
	const struct link_memory *memory;
};

static int count_nothing(struct link *l)
{
	return 0;
}

static int count_in(struct link *l)
{
	l->in_open = 1;
	recvs++;
	return 0;
}

static int count_out(struct link *l)
{
	l->out_open = 1;
	sends++;
	return 0;
}

static int count_poll(struct link *l, int outgoing)
{
	return count_nothing(l);
}

static int count_post(struct link *l, const void *header, const void *data, size_t bytes)
{
	return count_nothing(l);
}

static void free_counted(struct link *l)
{
	const struct link_memory *memory = ((struct counted *)l)->memory;
	for (int i = 0; i < l->in_open + l->out_open; i++)
		memory->release(memory->ctx);
	free(l);
}

static int count_open(struct transport *t, const struct link_params *params, struct link **out);

static const struct link_ops counting = { .open = count_open,
					  .open_in = count_in,
					  .open_out = count_out,
					  .post = count_post,
					  .release = count_nothing,
					  .poll = count_poll,
					  .free = free_counted };

static int count_open(struct transport *t, const struct link_params *params, struct link **out)
{
	struct counted *l = calloc(1, sizeof *l);
	assert_non_null(l);
	l->base.ops = &counting;
	l->memory = params->memory;
	*out = &l->base;
	return 0;
}

static int count_look(struct transport *t)
{
	looks++;
	return 0;
}

/* 256 nodes of 8: nothing is said to anybody before a call, and a look is at the connections that are open. */
UNIT_TEST(test_many)
{
	enum { PEERS = 2040, PROXIES = 64, LOOKS = 100000 };
	static const struct transport_ops ops = { .links = &counting, .progress = count_look };
	struct transport t = { .ops = &ops };
	struct proxy *proxies[PROXIES];
	remote_offset offset;
	static int ranks[PEERS];
	struct proxy_params params = { .rails = { &t }, .nrails = 1, .ranks = ranks };
	params.remote = (struct remote){ .slots = { { 1024, 4 }, { 512, 2 }, { 640, 2 } }, .peers = PEERS };
	params.bytes = 64 * REMOTE_LINE;
	params.remote.memory = calloc(1, params.bytes);
	assert_non_null(params.remote.memory);
	remote_set_data(&params.remote, params.remote.memory);
	int64_t begin = wait_now_ns();
	for (int i = 0; i < PROXIES; i++)
		assert_int_equal(proxy_create(&params, &proxies[i]), 0);
	print_message("%d peers: %.1f us a proxy\n", PEERS, (double)(wait_now_ns() - begin) / PROXIES / 1000);
	assert_int_equal(sends + recvs + looks, 0);
	assert_int_equal(proxy_open_end(proxies[0], PEERS - 1, REMOTE_IN, 3, &offset), 0);
	begin = wait_now_ns();
	for (int i = 0; i < LOOKS; i++)
		proxy_progress(proxies[0], 0);
	print_message("%d peers, a connection open: %.3f us a look\n", PEERS,
		      (double)(wait_now_ns() - begin) / LOOKS / 1000);
	assert_int_equal(looks, LOOKS);
	assert_int_equal(sends, 0);
	assert_int_equal(recvs, 1); /* of the connection */
	for (int i = 0; i < PROXIES; i++)
		assert_int_equal(proxy_free(proxies[i]), 1);
	free(params.remote.memory);
}

int main(void)
{
	const struct settings *read;
	if (settings_get(&read))
		return 1;
	settings = *read;
	return unit_run(NULL, NULL);
}
