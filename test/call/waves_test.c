/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waves of sends and receives: for random patterns of messages, in which each rank cuts its own, a message moves when both of its ends are in
 * waves that have started, and a rank starts its next wave when the one before has ended. Everything must end. Where a rank drives
 * several, its wave ends when those of all its ranks have.
 */
#include "test/helpers/unit.h"
#include "call/group.h"

enum { RANKS = 8, MOST = 400, PATTERNS = 400 };

static uint32_t state = 1;

static int draw(int n)
{
	state = state * 1664525u + 1013904223u;
	return (int)((state >> 8) % (uint32_t)n);
}

/* One thread, which drives some ranks. */
struct driver {
	struct wave_call calls[MOST * RANKS];
	unsigned char moved[MOST * RANKS];
	size_t n;
	uint32_t waves, wave; /* wave: that has started */
};

struct pattern {
	int size, drivers, driver_of[RANKS];
	uint32_t most;
	int messages[RANKS][RANKS];
	struct driver d[RANKS];
};

/* Some pairs have many, most have few, some none; one rank may talk to all. */
static void draw_pattern(struct pattern *p)
{
	p->size = 1 + draw(RANKS);
	p->drivers = draw(3) ? p->size : 1 + draw(p->size);
	p->most = (uint32_t)(4 * RANKS + draw(20));
	for (int r = 0; r < p->size; r++) {
		p->driver_of[r] = p->drivers == p->size ? r : draw(p->drivers);
		for (int to = 0; to < p->size; to++)
			p->messages[r][to] = draw(4) ? draw(6) : draw(4) ? 0 : draw(40);
	}
}

static void append(struct pattern *p, int rank, int receives, int peer)
{
	struct driver *d = &p->d[p->driver_of[rank]];
	assert_true(d->n < MOST * RANKS);
	d->calls[d->n] =
	    (struct wave_call){ .rank = rank, .peer = peer, .receives = receives, .order = (uint32_t)d->n };
	d->n++;
}

/* Each rank's calls in a random order that keeps those of a pair and direction. */
static void make_calls(struct pattern *p, int rank)
{
	int next[2][RANKS] = { { 0 } }, left = 0;
	for (int r = 0; r < p->size; r++)
		left += p->messages[rank][r] + p->messages[r][rank];
	while (left > 0) {
		const int peer = draw(p->size), receives = draw(2);
		if (next[receives][peer] == (receives ? p->messages[peer][rank] : p->messages[rank][peer]))
			continue;
		append(p, rank, receives, peer);
		next[receives][peer]++;
		left--;
	}
}

/* Waves follow each other in the list, hold `most` of a rank, and have those of a pair in their order. */
static void check_cut(const struct pattern *p, const struct driver *d)
{
	uint32_t used[MOST][RANKS] = { { 0 } };
	uint32_t seen[RANKS * 2 * RANKS] = { 0 };
	for (size_t i = 0; i < d->n; i++) {
		const struct wave_call *c = &d->calls[i];
		assert_true(c->wave < d->waves && c->wave < MOST);
		assert_true(i == 0 || c->wave >= d->calls[i - 1].wave);
		assert_true(++used[c->wave][c->rank] <= p->most);
		const int pair = 2 * RANKS * c->rank + RANKS * c->receives + c->peer;
		assert_true(seen[pair] <= c->order);
		seen[pair] = c->order + 1;
	}
}

static struct driver *driver_of(struct pattern *p, int rank)
{
	return &p->d[p->driver_of[rank]];
}

/* The other end of a message, if its wave has started. */
static int find_other(struct pattern *p, const struct wave_call *c)
{
	const struct driver *other = driver_of(p, c->peer);
	for (size_t i = 0; i < other->n; i++) {
		const struct wave_call *o = &other->calls[i];
		if (o->rank == c->peer && o->peer == c->rank && o->receives != c->receives &&
		    o->before == c->before)
			return o->wave <= other->wave;
	}
	return 0;
}

static int has_ended(const struct driver *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->calls[i].wave <= d->wave && !d->moved[i])
			return 0;
	return 1;
}

/* 1 if something moved. */
static int step(struct pattern *p, struct driver *d)
{
	int moves = 0;
	for (size_t i = 0; i < d->n && d->calls[i].wave <= d->wave; i++)
		if (!d->moved[i] && find_other(p, &d->calls[i]))
			moves = d->moved[i] = 1;
	if (d->wave + 1 < d->waves && has_ended(d)) {
		d->wave++;
		moves = 1;
	}
	return moves;
}

static int simulate(struct pattern *p)
{
	for (int moves = 1; moves;) {
		moves = 0;
		for (int i = 0; i < p->drivers; i++)
			moves |= step(p, &p->d[i]);
	}
	for (int i = 0; i < p->drivers; i++)
		if (p->d[i].wave + 1 != p->d[i].waves || !has_ended(&p->d[i]))
			return 0;
	return 1;
}

static void run_pattern(struct pattern *p)
{
	for (int r = 0; r < p->size; r++)
		make_calls(p, r);
	for (int i = 0; i < p->drivers; i++) {
		uint32_t used[RANKS];
		p->d[i].waves = waves_cut(p->d[i].calls, p->d[i].n, p->size, p->most, used);
		assert_true(p->d[i].waves > 0);
		check_cut(p, &p->d[i]);
	}
}

static void random_patterns(void **unused)
{
	uint32_t longest = 0;
	for (int i = 0; i < PATTERNS; i++) {
		struct pattern *p = calloc(1, sizeof *p);
		assert_non_null(p);
		const uint32_t seed = state;
		draw_pattern(p);
		run_pattern(p);
		longest = p->d[0].waves > longest ? p->d[0].waves : longest;
		if (!simulate(p))
			fail_msg("pattern %d of seed %u: %d ranks in %d threads wait for each other", i, seed,
				 p->size, p->drivers);
		free(p);
	}
	assert_true(longest > 3);
}

/* A ring of two messages each, cut so tightly that a wave that divided a send and a receive of one place would wait for the next. */
static void tight_ring(void **unused)
{
	struct pattern *p = calloc(1, sizeof *p);
	assert_non_null(p);
	p->size = p->drivers = 4;
	p->most = 3;
	for (int r = 0; r < p->size; r++) {
		p->driver_of[r] = r;
		p->messages[r][(r + 1) % p->size] = 9;
		p->messages[r][(r + 3) % p->size] = r % 2 ? 0 : 5;
	}
	run_pattern(p);
	assert_true(p->d[0].waves >= 6);
	assert_true(simulate(p));
	free(p);
}

/* The simulation notices: as waves are cut in the order of the calls, everybody waits. */
static void order_matters(void **unused)
{
	struct pattern *p = calloc(1, sizeof *p);
	assert_non_null(p);
	p->size = p->drivers = 2;
	for (int r = 0; r < 2; r++) {
		p->driver_of[r] = r;
		append(p, r, 0, 1 - r);
		append(p, r, 1, 1 - r);
		p->d[r].calls[1].wave = 1;
		p->d[r].waves = 2;
	}
	assert_false(simulate(p));
	free(p);
}

static void nothing(void **unused)
{
	assert_int_equal(waves_cut(NULL, 0, 1, 160, &(uint32_t){ 0 }), 1);
}

static const struct CMUnitTest tests[] = {
	{ "random patterns", random_patterns, NULL, NULL, NULL },
	{ "tight ring", tight_ring, NULL, NULL, NULL },
	{ "order matters", order_matters, NULL, NULL, NULL },
	{ "nothing", nothing, NULL, NULL, NULL },
};
enum { TESTS = sizeof tests / sizeof *tests };

/* With a number: that test alone. */
int main(int argc, char **argv)
{
	const int first = argc > 1 ? atoi(argv[1]) % TESTS : 0;
	return _cmocka_run_group_tests("waves", &tests[first], argc > 1 ? 1 : TESTS, NULL, NULL);
}
