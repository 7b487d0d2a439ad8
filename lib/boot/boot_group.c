/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_group_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"
#include "corale.h"

enum { MOST_FAILED = 256, MOST_QUEUED = 64 };
static const int64_t FAILED_NS =
    60000000000; /* ranks that come to a failed group get its reason for so long */

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

int boot_group_first(const struct boot_group *g, int (*is)(const struct member *))
{
	int r = 0;
	while (r < g->size && !is(&g->members[r]))
		r++;
	return r;
}

void boot_group_each(struct boot_group *g, void (*f)(struct boot_group *, struct member *, void *), void *arg)
{
	for (int is_here = 0; is_here <= 1; is_here++)
		for (int i = 0; i < g->size; i++)
			if (g->members[i].conn && (g->members[i].peer.process == g->here) == is_here)
				f(g, &g->members[i], arg);
}

struct boot_group *boot_group_find(const struct boot_groups *all, uint64_t name)
{
	struct boot_group *g = all->first;
	while (g && g->id.name != name)
		g = g->next;
	return g;
}

int boot_groups_has(const struct boot_groups *all, uint64_t name)
{
	return boot_group_find(all, name) != NULL;
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
	struct boot_group *g = boot_group_find(all, id->name);
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

struct boot_group *boot_group_after(struct boot_groups *all, struct boot_group *g)
{
	if (!g->id.flags || !boot_group_is_complete(g))
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

const char *boot_group_who(const struct boot_group *g, int rank, char text[BOOT_WHO_BYTES])
{
	const struct boot_peer *p = &g->members[rank].peer;
	snprintf(text, BOOT_WHO_BYTES, "rank %d%s (process %lld on %s)", rank, boot_id_whose(&g->id),
		 (long long)p->pid, p->host);
	return text;
}

struct boot_reason boot_reason_of(int code, int what, const char *format, ...)
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

void boot_group_fail(struct boot_group *g, struct boot_reason reason)
{
	g->has_failed = 1;
	g->failed_at = wait_now_ns();
	g->reason = reason;
	boot_group_each(g, dismiss, &g->reason);
	free_parts(g);
	free_sent(g);
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

void boot_group_send_all(struct boot_group *g, struct frame *f, struct frame **kept)
{
	frame_free(*kept);
	*kept = f;
	boot_group_each(g, send_frame, f);
	if (boot_passes_on(g->size))
		return;
	frame_free(f);
	*kept = NULL;
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
	boot_group_send_all(g, f, &g->last);
}

/* If the group, or an all-gather, waits for a rank that has left, it can't be completed. */
static void check_left(struct boot_group *g)
{
	char one[BOOT_WHO_BYTES];
	int rank = g->size;
	if (g->left && (!boot_group_is_complete(g) || g->parts))
		rank = boot_group_first(g, boot_group_is_complete(g) ? has_left_without_part : has_left);
	if (rank == g->size || g->has_failed)
		return;
	boot_group_fail(g, boot_reason_of(CORALE_EPEER, rank, "%s %s while other ranks wait for it",
					  boot_group_who(g, rank, one), g->members[rank].left_how));
}

static void take_part(struct boot_group *g, struct boot_conn *c)
{
	char one[BOOT_WHO_BYTES], two[BOOT_WHO_BYTES];
	const unsigned long long expected = g->round + 1;
	struct member *m = &g->members[c->rank];
	if (c->reader.number != expected || m->has_part) {
		boot_group_fail(g, boot_reason_of(CORALE_EINTERNAL, c->rank,
						  "%s sent a part of all-gather %llu, expected %llu",
						  boot_group_who(g, c->rank, one),
						  (unsigned long long)c->reader.number, expected));
		return;
	}
	if (g->parts && c->reader.bytes != g->bytes) {
		boot_group_fail(g, boot_reason_of(CORALE_EMISMATCH, c->rank,
						  "%s gives %u bytes to all-gather %llu, %s gave %zu",
						  boot_group_who(g, c->rank, one), c->reader.bytes, expected,
						  boot_group_who(g, boot_group_first(g, has_part), two),
						  g->bytes));
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
	return boot_group_is_complete(g) && g->round >= round;
}

/* The one who asks is not among the answer's ranks. */
static void answer_who(struct boot_group *g, struct boot_conn *c)
{
	struct boot_missing missing = { .ranks = 0 };
	const uint64_t round = c->reader.bytes == 8 ? frame_get(c->reader.data, 8) : 0;
	for (int r = 0; r < g->size && !has_sent(g, round); r++)
		if (r != c->rank &&
		    !(boot_group_is_complete(g) ? has_part : boot_group_has_come)(&g->members[r]))
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
	char one[BOOT_WHO_BYTES];
	if (!boot_reason_decode(c->reader.data, c->reader.bytes, &own)) {
		leave(all, c, "sent a frame that is damaged");
	} else if (own.code == CORALE_ETIMEDOUT || own.code == CORALE_EPEER || own.code == CORALE_EMISMATCH) {
		/* it is not the cause: its text names that */
		boot_group_fail(g, boot_reason_of(own.code, -1, "%.300s (says %s)", own.text,
						  boot_group_who(g, c->rank, one)));
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

void boot_group_take_frame(struct boot_groups *all, struct boot_conn *c)
{
	if (c->reader.kind == BOOT_PART)
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
