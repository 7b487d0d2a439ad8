/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_group.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"
#include "corale.h"

enum { MOST_FAILED = 256, MOST_QUEUED = 64, WHO_BYTES = 128 };
static const int64_t FAILED_NS =
    60000000000; /* ranks that come to a failed group get its reason for so long */

struct member {
	struct boot_conn *conn; /* NULL: has left */
	const char *left_how; /* "was aborted" */
	struct boot_peer peer;
	unsigned char *part; /* of the all-gather under way, of bytes, if it is there (has_part) */
	unsigned char has_come, has_left, has_part;
	unsigned char is_fed; /* it has the table and all-gathers from its source */
};

struct boot_group {
	struct boot_group *next;
	struct boot_id id;
	uint64_t here; /* this process's number */
	int opens; /* groups that this id is still to serve, with this one */
	int size; /* as the first rank said; 0: nobody has come */
	int come, left; /* how many ranks have */
	struct member *members; /* by rank; NULL: nobody has come */
	/* The all-gather under way. */
	uint64_t round; /* how many have ended */
	int parts; /* that are there */
	size_t bytes;
	struct frame *table,
	    *last; /* TABLE, and ALL of that round: kept where ranks pass them on, and one may ask again */
	/* How the group ended, if it failed. */
	int has_failed;
	int64_t failed_at;
	struct boot_reason reason;
};

static int is_complete(const struct boot_group *g)
{
	return g->size && g->come == g->size;
}

static int has_come(const struct member *m)
{
	return m->has_come;
}

static int has_part(const struct member *m)
{
	return m->has_part;
}

static int has_left(const struct member *m)
{
	return m->has_left;
}

static int has_left_without_part(const struct member *m)
{
	return m->has_left && !m->has_part;
}

/* The lowest rank of which that is true; size: there is none. */
static int first_rank(const struct boot_group *g, int (*is)(const struct member *))
{
	int r = 0;
	while (r < g->size && !is(&g->members[r]))
		r++;
	return r;
}

/*
 * Calls f for each rank that is there, those of this process last: when they have their frame, the others' are on their way, so this
 * process may end.
 */
static void for_each_rank(struct boot_group *g, void (*f)(struct boot_group *, struct member *, void *),
			  void *arg)
{
	for (int is_here = 0; is_here <= 1; is_here++)
		for (int i = 0; i < g->size; i++)
			if (g->members[i].conn && (g->members[i].peer.process == g->here) == is_here)
				f(g, &g->members[i], arg);
}

static struct boot_group *find(const struct boot_groups *all, uint64_t name)
{
	struct boot_group *g = all->first;
	while (g && g->id.name != name)
		g = g->next;
	return g;
}

int boot_groups_has(const struct boot_groups *all, uint64_t name)
{
	return find(all, name) != NULL;
}

int boot_groups_await(const struct boot_groups *all)
{
	int n = 0;
	for (const struct boot_group *g = all->first; g; g = g->next)
		n += g->has_failed ? 0 : g->size - g->come;
	return n;
}

static void free_parts(struct boot_group *g)
{
	for (int i = 0; i < g->size; i++) {
		free(g->members[i].part);
		g->members[i].part = NULL;
		g->members[i].has_part = 0;
	}
	g->parts = 0;
}

static void free_sent(struct boot_group *g)
{
	frame_free(g->table);
	frame_free(g->last);
	g->table = g->last = NULL;
}

/* Back to nobody has come. */
static void clear(struct boot_group *g)
{
	free_parts(g);
	free_sent(g);
	free(g->members);
	*g = (struct boot_group){ .next = g->next, .id = g->id, .here = g->here, .opens = g->opens };
}

/* NULL: no memory, which is logged. */
static struct boot_group *create(struct boot_groups *all, const struct boot_id *id)
{
	struct boot_group *g = calloc(1, sizeof(*g));
	if (!g) {
		log_error(CORALE_ENOMEM, -1, "bootstrap: no memory for a group");
		return NULL;
	}
	g->id = *id;
	g->here = all->maker.process;
	g->next = all->first;
	all->first = g;
	return g;
}

int boot_groups_add(struct boot_groups *all, const struct boot_id *id)
{
	struct boot_group *g = find(all, id->name);
	if (g && g->has_failed) {
		clear(g);
		g->opens = 0;
	}
	g = g ? g : create(all, id);
	if (!g)
		return CORALE_ENOMEM;
	g->id = *id;
	g->opens++;
	return 0;
}

/*
 * The group that a rank joins by an id that serves several: all ranks of the last one have come, so this is the next one, which may meet while
 * the last one lives. NULL: it is not expected yet.
 */
static struct boot_group *group_after(struct boot_groups *all, struct boot_group *g)
{
	if (!g->id.flags || !is_complete(g))
		return g;
	struct boot_group *next = g->opens > 1 ? create(all, &g->id) : NULL;
	if (next) {
		next->opens = g->opens - 1;
		g->opens = 1;
	}
	return next;
}

static void drop(struct boot_groups *all, struct boot_group *g)
{
	struct boot_group **at = &all->first;
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	clear(g);
	free(g);
}

void boot_groups_free(struct boot_groups *all)
{
	while (all->first)
		drop(all, all->first);
}

int boot_groups_forget(struct boot_groups *all)
{
	int64_t now = wait_now_ns();
	int failed = 0; /* the list is newest first */
	for (struct boot_group *g = all->first, *next; g; g = next) {
		next = g->next;
		if (!g->has_failed)
			continue;
		if (now - g->failed_at > FAILED_NS || failed >= MOST_FAILED)
			drop(all, g);
		else
			failed++;
	}
	return failed > 0;
}

/* "process 4711 on host" */
static const char *process_text(const struct boot_peer *p, char text[WHO_BYTES])
{
	snprintf(text, WHO_BYTES, "process %lld on %s", (long long)p->pid, p->host);
	return text;
}

/* "rank 3 (process 4711 on host)" */
static const char *who(const struct boot_group *g, int rank, char text[WHO_BYTES])
{
	const struct boot_peer *p = &g->members[rank].peer;
	snprintf(text, WHO_BYTES, "rank %d%s (process %lld on %s)", rank, boot_id_whose(&g->id),
		 (long long)p->pid, p->host);
	return text;
}

static struct boot_reason reason_of(int code, int what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static struct boot_reason reason_of(int code, int what, const char *format, ...)
{
	struct boot_reason reason = { .code = code, .what = what };
	va_list args;
	va_start(args, format);
	vsnprintf(reason.text, sizeof(reason.text), format, args);
	va_end(args);
	return reason;
}

static void dismiss(struct boot_group *g, struct member *m, void *reason)
{
	boot_conn_dismiss(m->conn, BOOT_FAIL, reason);
	m->conn = NULL;
}

/* Ends the group on all ranks, also on those that come later. */
static void fail(struct boot_group *g, struct boot_reason reason)
{
	g->has_failed = 1;
	g->failed_at = wait_now_ns();
	g->reason = reason;
	for_each_rank(g, dismiss, &g->reason);
	free_parts(g);
	free_sent(g);
}

/* ---- Ids that have served */

/* The size of its group; 0: not known. */
static int find_served(const struct boot_groups *all, uint64_t name)
{
	for (unsigned i = 0; i < BOOT_SERVED && i < all->nserved; i++)
		if (all->served[i].name == name)
			return all->served[i].size;
	return 0;
}

static struct boot_reason served_reason(const struct boot_hello *h, int size, const char *state)
{
	char peer[WHO_BYTES];
	return reason_of(CORALE_EPEER, BOOT_REFUSE_FINAL,
			 "stale id: it has already made a group of %d ranks, which %s; rank %d of %d (%s) "
			 "came later. An id serves one group: make a new one (ncclGetUniqueId)",
			 size, state, h->rank, h->size, process_text(&h->peer, peer));
}

/* ---- A rank comes */

static void refuse(struct boot_conn *c, struct boot_reason reason)
{
	log_line(LOG_INFO, -1, "bootstrap: a connection is refused: %s", reason.text);
	boot_conn_dismiss(c, BOOT_REFUSE, &reason);
}

/* why: how the group has failed. */
static void refuse_finally(struct boot_conn *c, struct boot_reason why)
{
	why.what = BOOT_REFUSE_FINAL;
	refuse(c, why);
}

/* Why a rank that knows the key can't be a member: that ends the group. code 0: it can. */
static struct boot_reason find_misfit(const struct boot_group *g, const struct boot_hello *h)
{
	char peer[WHO_BYTES], one[WHO_BYTES];
	process_text(&h->peer, peer);
	if (h->size < 1 || h->size > BOOT_MAX_RANKS)
		return reason_of(CORALE_ENOTSUP, h->rank,
				 "rank %d (%s) opened a group of %d ranks; 1 to %d are supported", h->rank,
				 peer, h->size, BOOT_MAX_RANKS);
	if (g->size && h->size != g->size)
		return reason_of(
		    CORALE_EMISMATCH, h->rank,
		    "rank %d (%s) opened the group with %d ranks, %s with %d; all must give the same number",
		    h->rank, peer, h->size, who(g, first_rank(g, has_come), one), g->size);
	if (h->rank < 0 || h->rank >= h->size)
		return reason_of(CORALE_EMISMATCH, h->rank,
				 "%s opened the group as rank %d of %d; expected 0 to %d", peer, h->rank,
				 h->size, h->size - 1);
	if (g->size && g->members[h->rank].has_come)
		return reason_of(CORALE_EMISMATCH, h->rank,
				 "rank %d came twice: %s and %s; each rank must open the group once", h->rank,
				 process_text(&g->members[h->rank].peer, one), peer);
	return (struct boot_reason){ .code = 0 };
}

static struct frame *table(const struct boot_group *g)
{
	struct frame *f = frame_new(BOOT_TABLE, 0, (size_t)g->size * BOOT_PEER_BYTES);
	for (int i = 0; f && i < g->size; i++)
		boot_peer_encode(&g->members[i].peer, frame_payload(f) + (size_t)i * BOOT_PEER_BYTES);
	return f;
}

static void send_frame(struct boot_group *g, struct member *m, void *frame)
{
	struct frame *f = frame;
	if (m->is_fed)
		return;
	if (f)
		f->users++;
	boot_conn_send(m->conn, f);
}

/* One frame for all who are there; one use of it is taken over. kept: where it is kept, if it is. */
static void send_all(struct boot_group *g, struct frame *f, struct frame **kept)
{
	frame_free(*kept);
	*kept = f;
	for_each_rank(g, send_frame, f);
	if (boot_passes_on(g->size))
		return;
	frame_free(f);
	*kept = NULL;
}

/* Each rank hears which one feeds it. */
static void send_feed(struct boot_group *g, struct member *m, void *nonce)
{
	const int source = boot_source_of((int)(m - g->members), g->size);
	struct frame *f = frame_new(BOOT_FEED, 0, BOOT_FEED_BYTES);
	m->is_fed = source >= 0;
	if (f) {
		memcpy(frame_payload(f), nonce, BOOT_NONCE_BYTES);
		boot_peer_encode(&g->members[m->is_fed ? source : 0].peer,
				 frame_payload(f) + BOOT_NONCE_BYTES);
	}
	boot_conn_send(m->conn, f);
}

/* All ranks have come. */
static void start_group(struct boot_group *g)
{
	unsigned char nonce[BOOT_NONCE_BYTES];
	if (boot_passes_on(g->size) && !boot_random(nonce, sizeof(nonce)))
		for_each_rank(g, send_feed, nonce);
	send_all(g, table(g), &g->table);
}

/* The answer that this process knows the key too. */
static void accept_rank(struct boot_groups *all, struct boot_group *g, struct boot_conn *c,
			const struct boot_hello *h, const unsigned char *hello)
{
	struct frame *f = boot_accept_frame(&all->maker, g->id.key, c->challenge, hello);
	g->size = h->size;
	g->members[h->rank] = (struct member){ .conn = c, .peer = h->peer, .has_come = 1 };
	g->come++;
	c->state = BOOT_CONN_MEMBER;
	c->group = g;
	c->rank = h->rank;
	size_t most = (size_t)FRAME_MAX_BYTES / (size_t)g->size;
	c->reader.limit = (uint32_t)most;
	boot_conn_send(c, f);
	if (is_complete(g))
		start_group(g);
}

/* A rank that a source of this process is to feed. */
static void feed_rank(struct boot_groups *all, struct boot_source *s, struct boot_conn *c, int rank,
		      const unsigned char *hello)
{
	boot_conn_send(c, boot_accept_frame(&all->maker, boot_source_key(s), c->challenge, hello));
	if (c->state != BOOT_CONN_DEAD)
		boot_source_join(s, c, rank);
}

/* A rank that knows the key of g. */
static void join(struct boot_groups *all, struct boot_group *g, struct boot_conn *c,
		 const struct boot_hello *h, const unsigned char *hello)
{
	struct boot_reason why;
	if (g->has_failed) {
		refuse_finally(c, g->reason);
		return;
	}
	if (!g->id.flags && is_complete(g)) { /* which goes on */
		refuse(c, served_reason(h, g->size, "is still in use"));
		return;
	}
	g = group_after(all, g);
	if (!g || (g->id.flags && h->rank >= 0 && h->rank < g->size && g->members[h->rank].has_left)) {
		why = reason_of(CORALE_EPEER, BOOT_REFUSE_UNKNOWN,
				"the group after the last one is not expected yet");
		boot_conn_dismiss(c, BOOT_REFUSE, &why);
		return;
	}
	why = find_misfit(g, h);
	if (why.code) {
		fail(g, why);
		refuse_finally(c, why);
		return;
	}
	if (!g->members)
		g->members = calloc((size_t)h->size, sizeof(*g->members));
	if (g->members)
		accept_rank(all, g, c, h, hello);
	else
		c->state = BOOT_CONN_DEAD;
}

static int knows_key(const unsigned char key[BOOT_KEY_BYTES], const struct boot_conn *c,
		     const unsigned char *data)
{
	unsigned char mac[HMAC_BYTES];
	boot_prove(key, c->challenge, data, NULL, mac);
	return hmac_equal(mac, data + BOOT_HELLO_BYTES, HMAC_BYTES);
}

static void take_hello(struct boot_groups *all, struct boot_conn *c)
{
	const unsigned char *data = c->reader.data;
	const size_t bytes = c->reader.bytes;
	char self[WHO_BYTES], peer[WHO_BYTES];
	struct boot_hello h;
	struct boot_group *g;
	struct boot_source *s;
	int served;
	const uint32_t version = c->reader.kind == BOOT_HELLO && bytes ? boot_hello_version(data, bytes) : 0;
	process_text(&all->maker, self);
	if (version && version != BOOT_PROTOCOL)
		refuse(c, reason_of(CORALE_ENOTSUP, BOOT_REFUSE_FINAL,
				    "this process speaks version %u of the bootstrap's protocol, %s version "
				    "%d; all processes must use the same Corale",
				    version, self, BOOT_PROTOCOL));
	else if (bytes != BOOT_PROOF_BYTES || !version || !boot_hello_decode(data, BOOT_HELLO_BYTES, &h))
		c->state = BOOT_CONN_DEAD; /* a stranger, who needs no answer */
	else if (h.process && h.process != all->maker.process)
		refuse(c, reason_of(CORALE_EPEER, BOOT_REFUSE_OTHER_PROCESS,
				    "the id was made by another process"));
	else if ((s = boot_source_find(all->sources, &h)) && knows_key(boot_source_key(s), c, data))
		feed_rank(all, s, c, h.rank, data);
	else if (!(g = find(all, h.name)) && (served = find_served(all, h.name)))
		refuse(c, served_reason(&h, served, "is complete"));
	else if (!g)
		refuse(c, reason_of(CORALE_EPEER, BOOT_REFUSE_UNKNOWN, "%s does not know the id", self));
	else if (!knows_key(g->id.key, c, data))
		refuse(c, reason_of(CORALE_EINVAL, BOOT_REFUSE_FINAL,
				    "wrong key: the id of rank %d (%s) is not the one that %s made; is it "
				    "passed on unchanged?",
				    h.rank, process_text(&h.peer, peer), self));
	else
		join(all, g, c, &h, data);
}

/* ---- A rank's part */

/* All parts are there: the frame for all. */
static void finish_round(struct boot_group *g)
{
	struct frame *f = frame_new(BOOT_ALL, g->round + 1, (size_t)g->size * g->bytes);
	for (int i = 0; f && g->bytes && i < g->size; i++)
		memcpy(frame_payload(f) + (size_t)i * g->bytes, g->members[i].part, g->bytes);
	free_parts(g);
	g->round++;
	send_all(g, f, &g->last);
}

/* If the group, or an all-gather, waits for a rank that has left, it can't be completed. */
static void check_left(struct boot_group *g)
{
	char one[WHO_BYTES];
	int rank = g->size;
	if (g->left && (!is_complete(g) || g->parts))
		rank = first_rank(g, is_complete(g) ? has_left_without_part : has_left);
	if (rank == g->size || g->has_failed)
		return;
	fail(g, reason_of(CORALE_EPEER, rank, "%s %s while other ranks wait for it", who(g, rank, one),
			  g->members[rank].left_how));
}

static void take_part(struct boot_group *g, struct boot_conn *c)
{
	char one[WHO_BYTES], two[WHO_BYTES];
	const unsigned long long expected = g->round + 1;
	struct member *m = &g->members[c->rank];
	if (c->reader.number != expected || m->has_part) {
		fail(g,
		     reason_of(CORALE_EINTERNAL, c->rank, "%s sent a part of all-gather %llu, expected %llu",
			       who(g, c->rank, one), (unsigned long long)c->reader.number, expected));
		return;
	}
	if (g->parts && c->reader.bytes != g->bytes) {
		fail(g, reason_of(CORALE_EMISMATCH, c->rank,
				  "%s gives %u bytes to all-gather %llu, %s gave %zu", who(g, c->rank, one),
				  c->reader.bytes, expected, who(g, first_rank(g, has_part), two), g->bytes));
		return;
	}
	g->bytes = c->reader.bytes;
	m->part = frame_steal(&c->reader);
	m->has_part = 1;
	if (++g->parts == g->size)
		finish_round(g);
	else
		check_left(g);
}

/* ---- A rank asks, and leaves */

/* Whether the table (round 0), or that all-gather, has been sent. */
static int has_sent(const struct boot_group *g, uint64_t round)
{
	return is_complete(g) && g->round >= round;
}

/* The one who asks is not among the answer's ranks. */
static void answer_who(struct boot_group *g, struct boot_conn *c)
{
	struct boot_missing missing = { .ranks = 0 };
	const uint64_t round = c->reader.bytes == 8 ? frame_get64(c->reader.data) : 0;
	for (int r = 0; r < g->size && !has_sent(g, round); r++)
		if (r != c->rank && !(is_complete(g) ? has_part : has_come)(&g->members[r]))
			boot_missing_add(&missing, r);
	struct frame *f =
	    c->writer.items < MOST_QUEUED ? boot_missing_frame(c->reader.number, &missing) : NULL;
	if (f)
		boot_conn_send(c, f);
}

/* Takes c out of its group. */
static void leave(struct boot_groups *all, struct boot_conn *c, const char *how)
{
	struct boot_group *g = c->group;
	c->group = NULL;
	c->state = BOOT_CONN_DEAD;
	struct member *m = &g->members[c->rank];
	m->conn = NULL;
	m->has_left = 1;
	m->left_how = how;
	g->left++;
	check_left(g);
	if (g->has_failed || g->left != g->size)
		return;
	if (!g->id.flags) {
		const unsigned at = all->nserved++ % BOOT_SERVED;
		all->served[at].name = g->id.name;
		all->served[at].size = g->size;
	}
	if (--g->opens)
		clear(g);
	else
		drop(all, g);
}

/* A rank's source does not send what it waits for, or has ended. */
static void take_again(struct boot_group *g, struct boot_conn *c)
{
	struct member *m = &g->members[c->rank];
	const uint64_t round = c->reader.number;
	m->is_fed = 0;
	if (!has_sent(g, round))
		return;
	if (!round) /* the first all-gather may have ended before */
		send_frame(g, m, g->table);
	if (g->round)
		send_frame(g, m, g->last);
}

static void take_leave(struct boot_groups *all, struct boot_group *g, struct boot_conn *c)
{
	struct boot_reason own;
	char one[WHO_BYTES];
	if (!c->reader.bytes || !boot_reason_decode(c->reader.data, c->reader.bytes, &own)) {
		leave(all, c, "sent a frame that is damaged");
	} else if (own.code == CORALE_ETIMEDOUT || own.code == CORALE_EPEER || own.code == CORALE_EMISMATCH) {
		/* it is not the cause: its text names that */
		fail(g, reason_of(own.code, -1, "%.300s (says %s)", own.text, who(g, c->rank, one)));
	} else if (own.code == CORALE_EABORTED) {
		leave(all, c, "was aborted");
	} else {
		leave(all, c, own.code ? "has failed" : "has closed its bootstrap");
	}
}

void boot_groups_lost(struct boot_groups *all, struct boot_conn *c)
{
	if (c->group)
		leave(all, c, "has died, or its connection broke,");
}

void boot_groups_frame(struct boot_groups *all, struct boot_conn *c)
{
	if (c->state == BOOT_CONN_NEW)
		take_hello(all, c);
	else if (c->reader.kind == BOOT_PART)
		take_part(c->group, c);
	else if (c->reader.kind == BOOT_WHO)
		answer_who(c->group, c);
	else if (c->reader.kind == BOOT_AGAIN)
		take_again(c->group, c);
	else if (c->reader.kind == BOOT_LEAVE)
		take_leave(all, c->group, c);
	else
		leave(all, c, "sent a frame of an unknown kind");
}
