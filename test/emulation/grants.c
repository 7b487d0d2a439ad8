/* SPDX-License-Identifier: BSD-3-Clause */
/* What receivers grant: when senders may store, where, and how a message ends that has only one of its ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulation_test.h"
#include "script.h"

enum { MOST_BYTES = 150000, ROOM = MOST_BYTES + 128, LONG_PAUSE = 20000, MOST_RANKS = 4, EMPTY_BYTE = 0x5a };

/* IN_WORDS: over a link that tears lines; such a send ends without its receive. */
enum way { THROUGH_SLOTS, DIRECT, IN_LINES, WAYS, IN_WORDS = WAYS };
static const size_t bytes_of_way[] = { MOST_BYTES, 60000, 60000, 2000 };

struct scene {
	struct world_params params;
	struct world world;
	enum way way; /* DIRECT: receive buffers are registered */
	size_t bytes; /* of a message */
	int faults[MOST_RANKS];
	unsigned char *memory[MOST_RANKS]; /* of a rank: what it sends, then room for a message of each */
	/* of one case */
	int absent; /* the rank that does not come */
	int aborts;
	struct test_call call;
	struct started started[MOST_RANKS];
};

static unsigned char content(int from, size_t i)
{
	return (unsigned char)(i * 7 + i / 251 + (size_t)from * 31 + test_seed);
}

static struct scene *new_scene(int ranks, enum way way)
{
	struct scene *s = calloc(1, sizeof(*s));
	if (!s)
		abort();
	s->way = way;
	s->bytes = bytes_of_way[way];
	s->absent = -1;
	s->params = (struct world_params){ .ranks = ranks,
					   .max_blocks = 2,
					   .window_bytes = 224 << 10,
					   .torn_lines = way == IN_WORDS,
					   .words_only = way == IN_WORDS,
					   .registered_bytes = ROOM * MOST_RANKS };
	return s;
}

/* Where a rank receives from another. */
static unsigned char *place_of(struct scene *s, int rank, int from)
{
	return (s->way == DIRECT ? s->world.registered[rank] : s->memory[rank] + ROOM) + from * ROOM;
}

static void fill(struct scene *s, int rank)
{
	s->memory[rank] = aligned_alloc(128, plan_round((MOST_RANKS + 1) * ROOM, 128));
	if (!s->memory[rank])
		abort();
	for (size_t i = 0; i < s->bytes; i++)
		s->memory[rank][i] = content(rank, i);
	for (int from = 0; from < s->params.ranks; from++)
		memset(place_of(s, rank, from), EMPTY_BYTE, ROOM);
}

static void run(struct scene *s, void (*host)(int rank, void *arg))
{
	if (world_open(&s->world, &s->params))
		abort();
	for (int r = 0; r < s->params.ranks; r++)
		fill(s, r);
	if (gpu_run(s->params.ranks, host, s, test_seed))
		exit(1);
}

static int close_scene(struct scene *s)
{
	int faults = 0;
	for (int r = 0; r < s->params.ranks; r++) {
		faults += s->faults[r];
		free(s->memory[r]);
	}
	world_close(&s->world);
	free(s);
	return faults;
}

static struct call sending(struct scene *s, int rank, int to)
{
	return world_send(to, s->memory[rank], s->bytes, CORALE_INT8);
}

static struct call receiving(struct scene *s, int rank, int from)
{
	struct call m = world_receive(from, place_of(s, rank, from), s->bytes, CORALE_INT8);
	if (s->way == DIRECT)
		m.record.target = (uint64_t)1 << ENGINE_TARGET_SHIFT | (uint64_t)(from * ROOM);
	return m;
}

static int start(struct scene *s, int rank, const struct call *m, int n)
{
	return engine_run_messages(&s->world.engines[rank], m, n, NULL) != 0;
}

static int check(struct scene *s, int rank, int from)
{
	const unsigned char *got = place_of(s, rank, from);
	for (size_t i = 0; i < ROOM; i++) {
		unsigned char expected = i < s->bytes ? content(from, i) : EMPTY_BYTE;
		if (got[i] == expected)
			continue;
		printf("# from %d to %d: byte %zu is 0x%02x, expected 0x%02x\n", from, rank, i, got[i],
		       expected);
		return 1;
	}
	return 0;
}

/* Whether a part of a rank's window is as it was at first. */
static int is_untouched(const struct scene *s, int rank, uint64_t begin, uint64_t end)
{
	const unsigned char *window = s->world.windows + (size_t)rank * s->world.engines->stride;
	for (uint64_t i = begin; i < end; i++)
		if (window[i])
			return 0;
	return 1;
}

static int rings_untouched(const struct scene *s, int rank)
{
	return is_untouched(s, rank, s->world.layout.rings, s->world.layout.slots);
}

static int slots_untouched(const struct scene *s, int rank)
{
	return is_untouched(s, rank, s->world.layout.slots, s->world.layout.bytes);
}

/* ---- Not before the receive; where to ---------------------------------------------------------------------------- */

/* All of a rank's memory that others may store into is as at first. */
static void wipe(struct scene *s, int rank, int from)
{
	const struct codelet_layout *l = &s->world.layout;
	memset(s->world.windows + (size_t)rank * s->world.engines->stride + l->slots, 0, l->bytes - l->slots);
	memset(place_of(s, rank, from), EMPTY_BYTE, ROOM);
}

/* number: of the message; the rings are as the one before has left them. */
static void await_sender(struct scene *s, int number)
{
	gpu_pause(LONG_PAUSE);
	for (size_t i = 0; i < ROOM; i++)
		s->faults[1] |= place_of(s, 1, 0)[i] != EMPTY_BYTE;
	s->faults[1] |= !slots_untouched(s, 1) || (number == 0 && !rings_untouched(s, 1));
	if (s->faults[1])
		printf("# the sender stored before it was granted anything\n");
}

/* Twice, so that there is an old grant for as many bytes. */
static void late_receiver(int rank, void *arg)
{
	struct scene *s = arg;
	for (int i = 0; i < 2; i++) {
		struct call m = rank ? receiving(s, 1, 0) : sending(s, 0, 1);
		if (rank) {
			wipe(s, 1, 0);
			await_sender(s, i);
		}
		s->faults[rank] += start(s, rank, &m, 1);
		gpu_synchronize();
		s->faults[rank] += script_print_failure(&s->world.engines[rank]);
		s->faults[rank] += rank && check(s, 1, 0);
	}
}

static int went_its_way(const struct scene *s)
{
	const int slots = s->way == THROUGH_SLOTS;
	int good = slots_untouched(s, 1) == !slots && rings_untouched(s, 1) == (s->way != IN_LINES);
	if (!good)
		printf("# a message of %zu bytes went another way\n", s->bytes);
	return good;
}

/* What teams run are no lines. */
int test_late_receiver(void)
{
	int faults = 0;
	for (int way = 0; way < WAYS; way++) {
		if (way == IN_LINES && world_forced == PLAN_BULK)
			continue;
		struct scene *s = new_scene(2, (enum way)way);
		run(s, late_receiver);
		faults += !went_its_way(s);
		faults += close_scene(s);
	}
	return faults;
}

/* Rank 0 receives from ranks 1 to n of 4, who send to nobody else. */
static void fan_in(int rank, void *arg)
{
	struct scene *s = arg;
	struct call m[MOST_RANKS];
	int senders = s->absent - 1; /* the first rank that does not send */
	if (rank > senders)
		return;
	for (int i = 0; i < senders && !rank; i++)
		m[i] = receiving(s, 0, i + 1);
	if (rank)
		m[0] = sending(s, rank, 0);
	s->faults[rank] += start(s, rank, m, rank ? 1 : senders);
	gpu_synchronize();
	s->faults[rank] += script_print_failure(&s->world.engines[rank]);
	for (int from = 1; !rank && from <= senders; from++)
		s->faults[0] += check(s, 0, from);
}

/* All slots are for those who send, and no more than all. */
static int check_rooms(const struct scene *s, uint64_t senders)
{
	const struct codelet_layout *l = &s->world.layout;
	const struct codelet_p2p *e = s->world.engines[0].p2p;
	const struct codelet_args *a = &e->group.args;
	uint64_t all = l->bytes - l->slots,
		 used = (uint64_t)e->group.most_channels * a->depth * a->slot_bytes;
	if (e->rooms == senders && a->area_bytes <= all / senders &&
	    a->area_bytes + CODELET_LINE > all / senders && used <= a->area_bytes)
		return 0;
	printf("# %d senders: %d rooms of %d bytes, %d of them used, of %d in all\n", (int)senders,
	       (int)e->rooms, (int)a->area_bytes, (int)used, (int)all);
	return 1;
}

int test_rooms(void)
{
	int faults = 0;
	for (int senders = 1; senders < MOST_RANKS; senders++) {
		struct scene *s = new_scene(MOST_RANKS, THROUGH_SLOTS);
		s->absent = senders + 1;
		run(s, fan_in);
		faults += check_rooms(s, (uint64_t)senders);
		faults += close_scene(s);
	}
	return faults;
}

/* ---- In any order ------------------------------------------------------------------------------------------------- */

/* Rank 0 makes two calls as a group; another rank one behind the other. */
static void run_in_order(struct scene *s, int rank, const struct call all[2], struct call first,
			 struct call second)
{
	s->faults[rank] +=
	    rank ? start(s, rank, &first, 1) + start(s, rank, &second, 1) : start(s, 0, all, 2);
	gpu_synchronize();
	s->faults[rank] += script_print_failure(&s->world.engines[rank]);
}

/* Rank 0 sends to both others at a time. Rank 1 takes that in after rank 2's message, which comes after rank 0's to rank 2. */
static void sends_wait(int rank, void *arg)
{
	struct scene *s = arg;
	const struct call all[] = { sending(s, 0, 1), sending(s, 0, 2) },
			  first = rank == 1 ? receiving(s, 1, 2) : receiving(s, 2, 0),
			  second = rank == 1 ? receiving(s, 1, 0) : sending(s, 2, 1);
	run_in_order(s, rank, all, first, second);
	s->faults[rank] += rank ? check(s, rank, 0) + (rank == 1 && check(s, 1, 2)) : 0;
}

/* Rank 0 receives from both at a time. Rank 1 sends that after rank 2's message, which comes after rank 2's to rank 0. */
static void receives_wait(int rank, void *arg)
{
	struct scene *s = arg;
	const struct call all[] = { receiving(s, 0, 1), receiving(s, 0, 2) },
			  first = rank == 1 ? receiving(s, 1, 2) : sending(s, 2, 0),
			  second = rank == 1 ? sending(s, 1, 0) : sending(s, 2, 1);
	run_in_order(s, rank, all, first, second);
	s->faults[rank] += rank == 1 ? check(s, 1, 2) : rank ? 0 : check(s, 0, 1) + check(s, 0, 2);
}

int test_any_order(void)
{
	int faults = 0;
	for (int way = THROUGH_SLOTS; way <= DIRECT; way++)
		for (int i = 0; i < 2; i++) {
			struct scene *s = new_scene(3, (enum way)way);
			run(s, i ? sends_wait : receives_wait);
			faults += close_scene(s);
		}
	return faults;
}

/* ---- In turn with collectives ------------------------------------------------------------------------------------- */

/* Rank 2 makes the call while rank 1 waits for rank 0's message in all of its slots. */
static void receive_late(int rank, void *arg)
{
	struct scene *s = arg;
	struct call m = rank ? receiving(s, 1, 0) : sending(s, 0, 1);
	if (!rank)
		gpu_pause(LONG_PAUSE);
	if (rank < 2)
		s->faults[rank] += start(s, rank, &m, 1);
	s->faults[rank] +=
	    call_start(&s->started[rank], &s->world, rank, &s->call, call_signature(&s->call)) != 0;
	gpu_synchronize();
	s->faults[rank] += script_print_failure(&s->world.engines[rank]);
	s->faults[rank] += rank == 1 && check(s, 1, 0);
	s->faults[rank] += call_finish(&s->started[rank]);
}

int test_slots_in_use(void)
{
	static const struct {
		corale_coll coll;
		const struct codelet *codelet;
	} calls[] = {
		{ CORALE_ALL_GATHER, &fifo_codelet },     { CORALE_ALL_TO_ALL, &fifo_codelet },
		{ CORALE_BROADCAST, &fifo_codelet },      { CORALE_ALL_TO_ALL_V, &fifo_codelet },
		{ CORALE_REDUCE_SCATTER, &bulk_codelet }, { CORALE_ALL_REDUCE, &bulk_codelet },
		{ CORALE_ALL_GATHER, &bulk_codelet },     { CORALE_BROADCAST, &bulk_codelet },
		{ CORALE_BROADCAST, &chain_codelet },
	};
	int faults = 0;
	for (size_t i = 0; !faults && i < sizeof(calls) / sizeof(*calls); i++) {
		struct scene *s = new_scene(3, THROUGH_SLOTS);
		s->call = (struct test_call){ .coll = calls[i].coll,
					      .codelet = calls[i].codelet,
					      .type = CORALE_INT32,
					      .count = 8000,
					      .root = 2,
					      .seed = test_seed };
		run(s, receive_late);
		faults = close_scene(s);
		if (faults)
			printf("# that was %s in turn with a message\n", corale_coll_name(calls[i].coll));
	}
	return faults;
}

/* ---- One end alone ------------------------------------------------------------------------------------------------ */

/* The first message has both ends, the second one only that of the rank that is not absent. */
static void one_end(int rank, void *arg)
{
	struct scene *s = arg;
	struct call m = rank ? receiving(s, 1, 0) : sending(s, 0, 1);
	for (int i = 0; i < 2 - (rank == s->absent); i++)
		s->faults[rank] += start(s, rank, &m, 1);
	if (s->aborts && rank != s->absent) {
		gpu_pause(LONG_PAUSE);
		world_abort(&s->world, rank, CORALE_EABORTED);
	}
	gpu_synchronize();
}

static int alone(int absent, enum way way, int aborts)
{
	struct scene *s = new_scene(2, way);
	s->absent = absent;
	s->aborts = aborts;
	s->params.timeout_ns = aborts ? 0 : 10000000;
	run(s, one_end);
	const struct codelet_failure *f = s->world.engines[!absent].failure;
	int code = aborts ? CORALE_EABORTED : CORALE_ETIMEDOUT;
	int good = f->code == code && (aborts || f->peer == absent) && f->epoch == 2 &&
		   !s->world.engines[absent].failure->code && !check(s, 1, 0);
	if (!good)
		printf("# only rank %d, %zu bytes%s: it has '%s', peer %d, message %d\n", !absent, s->bytes,
		       way == DIRECT ? ", registered" : "", corale_strerror(f->code), f->peer, (int)f->epoch);
	return close_scene(s) + !good;
}

int test_one_end(void)
{
	int faults = 0;
	for (int way = 0; way < WAYS; way++)
		for (int i = 0; i < 4; i += test_thin ? 3 : 1)
			faults += alone(i & 1, (enum way)way, i >> 1);
	for (int aborts = 0; aborts < 2; aborts++)
		faults += alone(0, IN_WORDS, aborts);
	return faults;
}

/* ---- Another number of bytes ---------------------------------------------------------------------------------------- */

/* In a registered buffer nothing may be written beyond the bytes that are awaited. */
static void fewer_bytes(int rank, void *arg)
{
	struct scene *s = arg;
	struct call m = rank ? receiving(s, 1, 0) : sending(s, 0, 1);
	m.record.count -= rank ? 1000 : 0;
	s->faults[rank] += start(s, rank, &m, 1);
	gpu_synchronize();
}

int test_fewer_bytes(void)
{
	struct scene *s = new_scene(2, DIRECT);
	run(s, fewer_bytes);
	const struct codelet_failure *sender = s->world.engines[0].failure,
				     *receiver = s->world.engines[1].failure;
	int good = sender->code == CORALE_EMISMATCH && receiver->code == CORALE_EMISMATCH &&
		   receiver->peer == 0 && receiver->expected == s->bytes - 1000 && receiver->got == s->bytes;
	for (size_t i = s->bytes - 1000; i < ROOM; i++)
		good = good && place_of(s, 1, 0)[i] == EMPTY_BYTE;
	if (!good)
		printf("# the sender has '%s'; the receiver '%s', peer %d, expected %d, got %d; or a byte "
		       "beyond the buffer was written\n",
		       corale_strerror(sender->code), corale_strerror(receiver->code), receiver->peer,
		       (int)receiver->expected, (int)receiver->got);
	return close_scene(s) + !good;
}

/* The sender is one message further when the receiver comes, so its header says nothing of the first one: its lines do. */
static void other_lines(int rank, void *arg)
{
	struct scene *s = arg;
	for (int i = 0; i < 2 - rank; i++) {
		struct call m = rank ? receiving(s, 1, 0) : sending(s, 0, 1);
		m.record.count = rank || i ? 2000 : 1000;
		if (rank)
			gpu_pause(LONG_PAUSE);
		s->faults[rank] += start(s, rank, &m, 1);
	}
	gpu_synchronize();
}

static int other_lines_of(enum way way)
{
	struct scene *s = new_scene(2, way);
	run(s, other_lines);
	const struct codelet_failure *f = s->world.engines[1].failure;
	int good = f->code == CORALE_EMISMATCH && f->peer == 0 && f->epoch == 1 && f->expected == 2000 &&
		   f->got == 1000;
	if (!good)
		printf("# the receiver has '%s', peer %d, message %d, expected %d, got %d\n",
		       corale_strerror(f->code), f->peer, (int)f->epoch, (int)f->expected, (int)f->got);
	return close_scene(s) + !good;
}

int test_other_lines(void)
{
	const int faults = other_lines_of(IN_LINES);
	return faults ? faults : other_lines_of(IN_WORDS);
}
