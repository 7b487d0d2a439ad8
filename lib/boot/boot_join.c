/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank comes to a group that meets here: it is taken in, given to the source that feeds it, or refused. */
#include "boot_group_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "corale.h"

/* "process 4711 on host" */
static const char *process_text(const struct boot_peer *p, char text[BOOT_WHO_BYTES])
{
	snprintf(text, BOOT_WHO_BYTES, "process %lld on %s", (long long)p->pid, p->host);
	return text;
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
	char peer[BOOT_WHO_BYTES];
	return boot_reason_of(
	    CORALE_EPEER, BOOT_REFUSE_FINAL,
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
	char peer[BOOT_WHO_BYTES], one[BOOT_WHO_BYTES];
	process_text(&h->peer, peer);
	if (h->size < 1 || h->size > BOOT_MAX_RANKS)
		return boot_reason_of(CORALE_ENOTSUP, h->rank,
				      "rank %d (%s) opened a group of %d ranks; 1 to %d are supported",
				      h->rank, peer, h->size, BOOT_MAX_RANKS);
	if (g->size && h->size != g->size)
		return boot_reason_of(
		    CORALE_EMISMATCH, h->rank,
		    "rank %d (%s) opened the group with %d ranks, %s with %d; all must give the same number",
		    h->rank, peer, h->size, boot_group_who(g, boot_group_first(g, boot_group_has_come), one),
		    g->size);
	if (h->rank < 0 || h->rank >= h->size)
		return boot_reason_of(CORALE_EMISMATCH, h->rank,
				      "%s opened the group as rank %d of %d; expected 0 to %d", peer, h->rank,
				      h->size, h->size - 1);
	if (g->size && g->members[h->rank].has_come)
		return boot_reason_of(CORALE_EMISMATCH, h->rank,
				      "rank %d came twice: %s and %s; each rank must open the group once",
				      h->rank, process_text(&g->members[h->rank].peer, one), peer);
	return (struct boot_reason){ .code = 0 };
}

static struct frame *table(const struct boot_group *g)
{
	struct frame *f = frame_new(BOOT_TABLE, 0, (size_t)g->size * BOOT_PEER_BYTES);
	for (int i = 0; f && i < g->size; i++)
		boot_peer_encode(&g->members[i].peer, frame_payload(f) + (size_t)i * BOOT_PEER_BYTES);
	return f;
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
		boot_group_each(g, send_feed, nonce);
	boot_group_send_all(g, table(g), &g->table);
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
	if (boot_group_is_complete(g))
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
	if (!g->id.flags && boot_group_is_complete(g)) { /* which goes on */
		refuse(c, served_reason(h, g->size, "is still in use"));
		return;
	}
	g = boot_group_after(all, g);
	if (!g || (g->id.flags && h->rank >= 0 && h->rank < g->size && g->members[h->rank].has_left)) {
		why = boot_reason_of(CORALE_EPEER, BOOT_REFUSE_UNKNOWN,
				     "the group after the last one is not expected yet");
		boot_conn_dismiss(c, BOOT_REFUSE, &why);
		return;
	}
	why = find_misfit(g, h);
	if (why.code) {
		boot_group_fail(g, why);
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
	char self[BOOT_WHO_BYTES], peer[BOOT_WHO_BYTES];
	struct boot_hello h;
	struct boot_group *g;
	struct boot_source *s;
	int served;
	const uint32_t version = c->reader.kind == BOOT_HELLO ? boot_hello_version(data, bytes) : 0;
	process_text(&all->maker, self);
	if (version && version != BOOT_PROTOCOL)
		refuse(c, boot_reason_of(
			      CORALE_ENOTSUP, BOOT_REFUSE_FINAL,
			      "this process speaks version %u of the bootstrap's protocol, %s version "
			      "%d; all processes must use the same Corale",
			      version, self, BOOT_PROTOCOL));
	else if (bytes != BOOT_PROOF_BYTES || !version || !boot_hello_decode(data, BOOT_HELLO_BYTES, &h))
		c->state = BOOT_CONN_DEAD; /* a stranger, who needs no answer */
	else if (h.process && h.process != all->maker.process)
		refuse(c, boot_reason_of(CORALE_EPEER, BOOT_REFUSE_OTHER_PROCESS,
					 "the id was made by another process"));
	else if ((s = boot_source_find(all->sources, &h)) && knows_key(boot_source_key(s), c, data))
		feed_rank(all, s, c, h.rank, data);
	else if (!(g = boot_group_find(all, h.name)) && (served = find_served(all, h.name)))
		refuse(c, served_reason(&h, served, "is complete"));
	else if (!g)
		refuse(c, boot_reason_of(CORALE_EPEER, BOOT_REFUSE_UNKNOWN, "%s does not know the id", self));
	else if (!knows_key(g->id.key, c, data))
		refuse(c,
		       boot_reason_of(CORALE_EINVAL, BOOT_REFUSE_FINAL,
				      "wrong key: the id of rank %d (%s) is not the one that %s made; is it "
				      "passed on unchanged?",
				      h.rank, process_text(&h.peer, peer), self));
	else
		join(all, g, c, &h, data);
}

void boot_groups_frame(struct boot_groups *all, struct boot_conn *c)
{
	if (c->state == BOOT_CONN_NEW)
		take_hello(all, c);
	else
		boot_group_take_frame(all, c);
}
