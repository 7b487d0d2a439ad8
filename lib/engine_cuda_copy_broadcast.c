/* Broadcasts by copy engines: into registered memory, and between two ranks through scratch. */
#include "engine_cuda_copy.h"

/* ---- Registered memory ------------------------------------------------------------------------------------- */

/*
 * The root sends each of the m others a piece in turn, and these pass their pieces on among themselves. In step i of a cycle
 * the root sends to other i, and other u sends to other v with u + v = 2i modulo M, M odd: every other receives
 * from one, and in a cycle each has sent its piece to all. Pieces of place u go on in the steps after step u, so in steps
 * before u those of the cycle before.
 */
struct spread {
	int others, period, cycles, root;
	uint64_t piece;
};

static struct spread spread_of(const struct copies *k)
{
	struct spread s = { .others = k->e->ranks - 1, .root = k->call->root };
	double more_us;
	s.period = s.others | 1;
	s.cycles = plan_codelet_cycles(k->e->ranks, k->call->bytes, &more_us);
	s.piece = codelet_round(k->call->bytes / ((uint64_t)s.cycles * (uint64_t)s.others) + 1, COPY_ALIGN);
	return s;
}

static struct copy_span piece_of(const struct copies *k, const struct spread *s, int cycle, int other)
{
	uint64_t all = k->call->bytes,
		 at = ((uint64_t)cycle * (uint64_t)s->others + (uint64_t)other) * s->piece;
	at = at < all ? at : all;
	return (struct copy_span){ at, all - at < s->piece ? all - at : s->piece };
}

static void send_piece(struct copies *k, const struct spread *s, int cycle, int piece, int to,
		       const unsigned char *from)
{
	if (cycle < 0 || cycle >= s->cycles || to >= s->others)
		return;
	struct copy_span p = piece_of(k, s, cycle, piece);
	copy_by_engine(k, copy_target(k, (s->root + 1 + to) % k->e->ranks) + p.at, from + p.at, p.bytes);
}

static void spread(struct copies *k)
{
	const struct spread s = spread_of(k);
	int root = k->e->rank == s.root, me = (k->e->rank - s.root - 1 + k->e->ranks) % k->e->ranks;
	int steps = s.cycles * s.period + s.others - 1;
	if (root)
		copy_own(k, copy_received(k), copy_sent(k), k->call->bytes, 1);
	copy_barrier(k, 0);
	for (int t = 0; t < steps; t++) {
		int cycle = t / s.period, i = t % s.period, to = (2 * i - me + 2 * s.period) % s.period;
		if (root)
			send_piece(k, &s, cycle, i, i, copy_sent(k));
		else if (to != me)
			send_piece(k, &s, i > me ? cycle : cycle - 1, me, to, copy_received(k));
		copy_barrier(k, t == steps - 1);
	}
	if (root)
		copy_wait_own(k);
}

/* ---- Through scratch -------------------------------------------------------------------------------------- */

/* What the root keeps is copied piece by piece, too. */
static void add_piece(struct copies *k, struct copy_piece p, uint32_t arrival)
{
	int root = k->call->root;
	struct codelet_job job = { .own = copy_scratch(k, root, 1 - root, 0, 1) + p.in,
				   .to = copy_received(k) + p.at,
				   .bytes = p.bytes,
				   .arrival = arrival };
	if (k->e->rank == root)
		job.own = copy_sent(k) + p.at;
	if (job.own == job.to)
		job.bytes = 0;
	copy_add(k, &job);
}

/* Between two ranks there is one step, the last one. */
static void add_pieces(struct copies *k, struct copy_piece round)
{
	uint64_t done = 0;
	int number = 0;
	do {
		struct copy_piece p = copy_next_piece(k, 1, round, done);
		add_piece(k, p, copy_next_arrival(k, number++));
		done += p.bytes;
	} while (done < round.bytes);
}

static void send_pieces(struct copies *k, struct copy_piece round)
{
	int root = k->call->root;
	uint64_t done = 0;
	copy_barrier(k, 0);
	do {
		struct copy_piece p = copy_next_piece(k, 1, round, done);
		if (k->e->rank == root)
			copy_by_engine(k, copy_scratch(k, root, 1 - root, 0, 1) + p.in, copy_sent(k) + p.at,
				       p.bytes);
		copy_arrival(k);
		done += p.bytes;
	} while (done < round.bytes);
}

void copy_broadcast(struct copies *k)
{
	if (k->call->target)
		spread(k);
	else
		copy_in_rounds(k, add_pieces, send_pieces);
}
