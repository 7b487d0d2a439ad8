/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/wait.h"

static const int64_t LINGER_NS = 2000000000;

struct boot_source {
	struct boot_source *next;
	unsigned char key[BOOT_KEY_BYTES];
	uint64_t name;
	int size, first; /* of the group; the first rank that it sends to, */
	int ranks; /* and how many */
	struct frame *first_sent, *last_sent; /* NULL: none, none after the first */
	struct boot_conn *conns[BOOT_FANOUT]; /* by rank, from the first on */
	unsigned char has_joined[BOOT_FANOUT];
	int joined; /* how many have */
	int64_t left_until; /* 0: its rank has not ended */
};

struct boot_source *boot_source_add(struct boot_source **all, const unsigned char key[BOOT_KEY_BYTES],
				    int rank, int size)
{
	struct boot_source *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	memcpy(s->key, key, BOOT_KEY_BYTES);
	s->name = boot_name_of_key(key);
	s->size = size;
	s->first = BOOT_FANOUT * (rank + 1);
	s->ranks = size - s->first < BOOT_FANOUT ? size - s->first : BOOT_FANOUT;
	s->next = *all;
	*all = s;
	return s;
}

struct boot_source *boot_source_find(struct boot_source *all, const struct boot_hello *h)
{
	struct boot_source *s = all;
	while (s && s->name != h->name)
		s = s->next;
	if (!s || h->size != s->size || h->rank < s->first || h->rank - s->first >= s->ranks)
		return NULL;
	return s;
}

int boot_source_await(const struct boot_source *all)
{
	int n = 0;
	for (const struct boot_source *s = all; s; s = s->next)
		for (int i = 0; i < s->ranks; i++)
			n += !s->has_joined[i];
	return n;
}

const unsigned char *boot_source_key(const struct boot_source *s)
{
	return s->key;
}

static void send_one(struct boot_conn *c, struct frame *f)
{
	f->users++;
	boot_conn_send(c, f);
}

void boot_source_join(struct boot_source *s, struct boot_conn *c, int rank)
{
	struct boot_conn **at = &s->conns[rank - s->first];
	if (*at) /* an earlier try of that rank */
		boot_conn_finish(*at);
	*at = c;
	s->joined += !s->has_joined[rank - s->first];
	s->has_joined[rank - s->first] = 1;
	c->state = BOOT_CONN_FED;
	c->source = s;
	c->rank = rank;
	if (s->first_sent)
		send_one(c, s->first_sent);
	if (s->last_sent)
		send_one(c, s->last_sent);
	if (!s->left_until)
		return;
	boot_conn_finish(c);
	*at = NULL;
}

void boot_source_lost(struct boot_conn *c)
{
	if (c->source)
		c->source->conns[c->rank - c->source->first] = NULL;
	c->source = NULL;
}

void boot_source_send(struct boot_source *s, struct frame *f)
{
	struct frame **at = s->first_sent ? &s->last_sent : &s->first_sent;
	frame_free(*at);
	*at = f;
	for (int i = 0; i < s->ranks; i++)
		if (s->conns[i])
			send_one(s->conns[i], f);
}

void boot_source_leave(struct boot_source *s)
{
	s->left_until = wait_now_ns() + LINGER_NS;
	for (int i = 0; i < s->ranks; i++) {
		if (s->conns[i])
			boot_conn_finish(s->conns[i]);
		s->conns[i] = NULL;
	}
}

static void drop_first(struct boot_source **at)
{
	struct boot_source *s = *at;
	*at = s->next;
	for (int i = 0; i < s->ranks; i++)
		if (s->conns[i])
			s->conns[i]->source = NULL;
	frame_free(s->first_sent);
	frame_free(s->last_sent);
	free(s);
}

int boot_source_forget(struct boot_source **all)
{
	const int64_t now = wait_now_ns();
	int waiting = 0;
	for (struct boot_source **at = all; *at;) {
		struct boot_source *s = *at;
		if (s->left_until && (s->joined == s->ranks || now > s->left_until)) {
			drop_first(at);
			continue;
		}
		waiting |= s->left_until != 0;
		at = &s->next;
	}
	return waiting;
}

void boot_source_free(struct boot_source **all)
{
	while (*all)
		drop_first(all);
}
