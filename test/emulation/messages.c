/* Groups of sends and receives: several messages a pair, of other sizes, to oneself too, and collectives between groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulation_test.h"
#include "reference.h"
#include "script.h"

enum { MOST_MESSAGES = 400, MOST_GROUPS = 20, MOST_OWN = 120, GUARD = 64, GUARD_BYTE = 0x5a };

struct message {
	int from, to, group;
	size_t bytes;
	unsigned shift;
};

/* What all ranks do: group 0, the call of group 0 if there are calls, group 1, ... */
struct exchange {
	struct world_params params;
	struct world world;
	struct message messages[MOST_MESSAGES];
	int n, groups, calls; /* calls: whether there are any */
	struct call call[MOST_GROUPS];
	int faults[GPU_MAX_HOSTS];
};

/* A message of mine. */
struct own {
	const struct message *message;
	int number;
	unsigned char *memory, *data, *copy; /* copy: of one to oneself, where it goes */
};

static struct reference content(int number)
{
	return (struct reference){ .type = CORALE_UINT8,
				   .op = (corale_op)REFERENCE_COPY,
				   .ranks = 1,
				   .data = REFERENCE_RANDOM,
				   .seed = test_seed * 4096 + (uint64_t)number };
}

static void make_own(struct own *o, const struct exchange *x, int number, int rank)
{
	const struct message *m = &x->messages[number];
	struct reference ref = content(number);
	size_t room = m->bytes + m->shift + 2 * GUARD;
	*o = (struct own){ .message = m, .number = number, .memory = malloc(2 * room) };
	if (!o->memory)
		abort();
	memset(o->memory, GUARD_BYTE, 2 * room);
	o->data = o->memory + GUARD + m->shift;
	o->copy = m->from == m->to ? o->data + room : NULL;
	if (m->from == rank)
		reference_fill(&ref, 0, 0, m->bytes, o->data);
}

static int check_own(const struct own *o, int rank)
{
	const struct message *m = o->message;
	struct reference ref = content(o->number);
	const unsigned char *got = o->copy ? o->copy : o->data;
	struct reference_fault fault;
	size_t wrong = m->to == rank ? reference_check_copy(&ref, 0, 0, m->bytes, got, &fault) : 0;
	if (wrong)
		printf("# message %d of %zu bytes from %d to %d: byte %zu is %s, expected %s\n", o->number,
		       m->bytes, m->from, m->to, fault.index, fault.got, fault.expected);
	for (size_t i = 0; m->to == rank && i < GUARD / 2; i++)
		if (got[-1 - (ptrdiff_t)i] != GUARD_BYTE || got[m->bytes + i] != GUARD_BYTE) {
			printf("# message %d: a byte off its buffer was written\n", o->number);
			return 1;
		}
	return wrong != 0;
}

/* One rank's part of a group. */
static int send_group(struct exchange *x, int rank, int group, struct own *own, int *used)
{
	struct engine_message list[MOST_OWN];
	int n = 0;
	for (int i = 0; i < x->n; i++) {
		const struct message *m = &x->messages[i];
		if (m->group != group || (m->from != rank && m->to != rank))
			continue;
		struct own *o = &own[(*used)++];
		make_own(o, x, i, rank);
		list[n++] = (struct engine_message){ .data = o->copy ? o->copy : o->data,
						     .from = o->copy ? o->data : NULL,
						     .bytes = m->bytes,
						     .peer = m->from == rank ? m->to : m->from,
						     .sending = m->from == rank && !o->copy };
	}
	return n ? engine_run_messages(&x->world.engines[rank], list, n, NULL) : 0;
}

static void exchange(int rank, void *arg)
{
	struct exchange *x = arg;
	struct own *own = calloc((size_t)x->n, sizeof(*own));
	struct started *calls = calloc(MOST_GROUPS, sizeof(*calls));
	int used = 0, faults = 0;
	if (!own || !calls)
		abort();
	for (int g = 0; g < x->groups; g++) {
		gpu_pause(gpu_random(2000));
		faults += send_group(x, rank, g, own, &used) != 0;
		if (x->calls)
			faults += call_start(&calls[g], &x->world, rank, &x->call[g],
					     call_signature(&x->call[g])) != 0;
		if (!gpu_random(3))
			gpu_synchronize();
	}
	gpu_synchronize();
	faults += script_print_failure(&x->world.engines[rank]);
	for (int i = 0; i < used; i++) {
		faults += faults ? 1 : check_own(&own[i], rank);
		free(own[i].memory);
	}
	for (int g = 0; x->calls && g < x->groups; g++)
		faults += faults ? 1 : call_finish(&calls[g]);
	x->faults[rank] = faults;
	free(own);
	free(calls);
}

static size_t mix(size_t i)
{
	uint64_t h = (i + 1 + test_seed * 1000003) * 0x9e3779b97f4a7c15u;
	return (size_t)(h >> 40);
}

static void fill_group(struct exchange *x, int group, int most_a_pair)
{
	static const size_t most[] = { 1, 20, 400, 3000, 70000 };
	for (int pair = 0; pair < x->params.ranks * x->params.ranks; pair++) {
		int from = pair / x->params.ranks, to = pair % x->params.ranks;
		int n = (int)(mix((size_t)(group * 100 + pair)) % (size_t)(most_a_pair + 1));
		for (int k = 0; k < n && x->n < MOST_MESSAGES; k++) {
			size_t h = mix((size_t)((group * 100 + pair) * 10 + k));
			x->messages[x->n++] =
			    (struct message){ .from = from,
					      .to = to,
					      .group = group,
					      .bytes = h / 8 % most[h % (test_thin ? 4 : 5)],
					      .shift = h / 5 % 3 ? 0 : (unsigned)(h / 16 % 32) };
		}
	}
}

static int run_exchange(int ranks, int groups, int most_a_pair, int calls)
{
	static const enum plan_codelet codelets[] = { CODELET_PACKETS, CODELET_TWO_SHOT, CODELET_SLOTS };
	struct exchange *x = calloc(1, sizeof(*x));
	int faults = 0;
	if (!x)
		abort();
	x->params = (struct world_params){ .ranks = ranks, .max_blocks = 3, .window_bytes = 192 << 10 };
	x->groups = groups;
	x->calls = calls;
	for (int g = 0; g < groups; g++) {
		fill_group(x, g, most_a_pair);
		x->call[g] = (struct call){ .codelet = codelets[g % 3],
					    .coll = g % 3 == 2 ? CORALE_ALL_GATHER : CORALE_ALL_REDUCE,
					    .type = CORALE_FLOAT32,
					    .count = mix((size_t)g) % 700,
					    .seed = (uint64_t)g };
	}
	if (world_open(&x->world, &x->params))
		abort();
	if (gpu_run(ranks, exchange, x, test_seed))
		return -1;
	for (int r = 0; r < ranks; r++)
		faults += x->faults[r];
	world_close(&x->world);
	free(x);
	return faults;
}

int test_messages(void)
{
	int faults = 0;
	for (int ranks = 2; !faults && ranks <= (test_thin ? 2 : 4); ranks++)
		faults = run_exchange(ranks, test_thin ? 3 : 8, ranks > 3 ? 2 : 4, 0);
	return faults;
}

int test_pairs_in_turn(void)
{
	return run_exchange(test_thin ? 2 : 3, test_thin ? 6 : MOST_GROUPS, 1, 1);
}
