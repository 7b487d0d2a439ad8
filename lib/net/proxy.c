/* One communicator's messages: what kernels have posted goes into links, what has arrived to the kernels. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "proxy_state.h"

enum { LOOKS_PER_LANE = 8 /* channels that were never used are looked at once in so many looks */ };

_Static_assert(sizeof(struct remote_header) == TRANSPORT_HEADER_BYTES,
	       "a message's header is the transport's");
_Static_assert(PROXY_FIRST_LANE + (int)REMOTE_LANES <= (int)TRANSPORT_MAX_LANES,
	       "a lane of the transport for each of ours");

/* ---- One lane ---------------------------------------------------------------------------------------------- */

static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Where a link's slots are not the kernels' memory. */
static void copy(unsigned char *to, const unsigned char *from, size_t bytes)
{
	if (to != from && bytes)
		memcpy(to, from, bytes);
}

/* Data of word k of a message of few bytes; 0 if it is not there yet. */
static int read_word(const uint64_t *words, uint32_t k, uint64_t number, uint32_t *data)
{
	const uint64_t word = proxy_load(&words[k]);
	*data = (uint32_t)word;
	return word >> 32 == remote_flag(number);
}

/* A message of few bytes, whose words may come in any order; 0: not all are there. */
static int read_few(const uint64_t *words, uint64_t number, struct remote_header *header, unsigned char *data)
{
	uint32_t head[REMOTE_DATA], word;
	for (uint32_t k = 0; k < REMOTE_DATA; k++)
		if (!read_word(words, k, number, &head[k]))
			return 0;
	const uint32_t bytes = head[REMOTE_BYTES];
	*header = (struct remote_header){ .number = number,
					  .signature = (uint64_t)head[REMOTE_SIGNATURE + 1] << 32 |
						       head[REMOTE_SIGNATURE],
					  .what = (uint64_t)head[REMOTE_WHAT + 1] << 32 | head[REMOTE_WHAT],
					  .bytes = bytes };
	for (uint32_t at = 0; at < bytes; at += 4) {
		if (!read_word(words, (uint32_t)REMOTE_DATA + at / 4, number, &word))
			return 0;
		memcpy(data + at, &word, bytes - at < 4 ? bytes - at : 4);
	}
	return 1;
}

/* The message goes, in the slot where the kernel has put it. 1: it has; 0: it is not whole yet; or an error. */
static int send_message(struct proxy *p, int i, uint32_t lane)
{
	struct link *l = p->peers[i].lanes[lane].link;
	const struct remote *r = &p->params.remote;
	const struct remote_header *line = remote_header_at(r, i, REMOTE_OUT, lane, l->posted);
	struct remote_header header;
	if (proxy_load(&line->number) == l->posted + 1) {
		header = *line;
		copy(link_slot(l), remote_data_at(r, i, REMOTE_OUT, lane, l->posted), header.bytes);
	} else if (!read_few((const uint64_t *)line, l->posted + 1, &header, link_slot(l))) {
		return 0;
	}
	const int ret = link_post(l, &header, NULL, header.bytes);
	return ret ? ret : 1;
}

/* Messages whose slots are the kernels' again: the peer has taken them. */
static uint64_t free_of(const struct link *l)
{
	const uint64_t limit = atomic_load_explicit(&l->limit, memory_order_acquire);
	return limit > REMOTE_DEPTH ? limit - REMOTE_DEPTH : 0;
}

static void tell_room(const struct proxy *p, int i, uint32_t lane)
{
	const uint64_t now = free_of(p->peers[i].lanes[lane].link);
	uint64_t *free = &remote_words_of(&p->params.remote, i)->free[lane];
	if (now != *free)
		store(free, now);
}

/* Nothing more goes to a peer, or comes from it, on this rail. */
static void lose(struct proxy *p, int rail, int i)
{
	p->rails[rail].lost[i] = 1;
	atomic_store_explicit(&p->lost, p->peers[i].rank + 1, memory_order_relaxed);
}

static int move_out(struct proxy *p, int rail, int i, uint32_t lane)
{
	struct link *l = p->peers[i].lanes[lane].link;
	const uint64_t posted = proxy_load(&remote_words_of(&p->params.remote, i)->posted[lane]);
	int moved = 0, ret = 0;
	while (l->posted < posted && (ret = link_room(l)) > 0 && (ret = send_message(p, i, lane)) > 0)
		moved = 1;
	if (ret >= 0 && l->out_open &&
	    atomic_load_explicit(&l->limit, memory_order_relaxed) < posted + REMOTE_DEPTH)
		ret = l->ops->poll(l, 1);
	if (ret < 0)
		lose(p, rail, i);
	if (posted)
		tell_room(p, i, lane);
	return moved;
}

static void write_word(uint64_t *words, uint32_t k, uint64_t number, uint32_t data)
{
	store(&words[k], (uint64_t)remote_flag(number) << 32 | data);
}

/* The first word last: a kernel that waits for it alone loads the data from the slot. */
static void write_few(uint64_t *words, const struct remote_header *header, const unsigned char *data,
		      uint64_t free)
{
	const uint32_t head[REMOTE_DATA] = { (uint32_t)header->signature, (uint32_t)(header->signature >> 32),
					     (uint32_t)header->what,      (uint32_t)(header->what >> 32),
					     (uint32_t)header->bytes,     (uint32_t)free };
	for (uint32_t at = 0; at < header->bytes; at += 4) {
		uint32_t word = 0;
		memcpy(&word, data + at, header->bytes - at < 4 ? header->bytes - at : 4);
		write_word(words, (uint32_t)REMOTE_DATA + at / 4, header->number, word);
	}
	for (uint32_t k = REMOTE_DATA; k--;)
		write_word(words, k, header->number, head[k]);
}

static void write_header(struct remote_header *to, const struct remote_header *header)
{
	/* a kernel that waits for the number reads it beside that */
	__atomic_store_n(&to->signature, header->signature, __ATOMIC_RELAXED);
	to->what = header->what;
	to->bytes = header->bytes;
	store(&to->number, header->number);
}

/* Hands the next message to the kernel. */
static void deliver(struct proxy *p, int i, uint32_t lane)
{
	struct proxy_lane *at = &p->peers[i].lanes[lane];
	const struct link_message *m = &at->link->in[at->delivered % (uint64_t)at->link->in_depth];
	const struct remote *r = &p->params.remote;
	struct remote_header header, *to = remote_header_at(r, i, REMOTE_IN, lane, at->delivered);
	memcpy(&header, m->header, sizeof header);
	copy(remote_data_at(r, i, REMOTE_IN, lane, at->delivered), m->data, m->bytes);
	header.bytes = m->bytes;
	header.number = ++at->delivered;
	if (header.bytes <= REMOTE_FEW_BYTES)
		write_few((uint64_t *)to, &header, m->data, free_of(at->link));
	else
		write_header(to, &header);
}

static int move_in(struct proxy *p, int rail, int i, uint32_t lane)
{
	struct proxy_lane *at = &p->peers[i].lanes[lane];
	struct link *l = at->link;
	const uint64_t taken = proxy_load(&remote_words_of(&p->params.remote, i)->taken[lane]);
	int moved = 0, ret = 0;
	while (!ret && link_taken(l) < taken)
		ret = link_release(l);
	if (!ret && at->delivered == atomic_load_explicit(&l->arrived, memory_order_acquire))
		ret = l->ops->poll(l, 0);
	for (; at->delivered < atomic_load_explicit(&l->arrived, memory_order_acquire); moved = 1)
		deliver(p, i, lane);
	if (ret < 0)
		lose(p, rail, i);
	return moved;
}

/* ---- One communicator -------------------------------------------------------------------------------------- */

static int move_channel(struct proxy *p, int rail, int i, uint32_t channel)
{
	int moved = 0;
	for (uint32_t lane = remote_lane(channel, 0); lane < remote_lane(channel + 1, 0); lane++) {
		moved += move_in(p, rail, i, lane);
		if (!p->rails[rail].lost[i])
			moved += move_out(p, rail, i, lane);
	}
	return moved;
}

static int move_channels(struct proxy *p, int rail, uint32_t channels)
{
	struct proxy_rail *r = &p->rails[rail];
	int moved = 0;
	for (uint32_t channel = (uint32_t)rail; channel < channels; channel += (uint32_t)p->params.nrails)
		for (int i = 0; i < p->params.remote.peers; i++) {
			const int messages = move_channel(p, rail, i, channel);
			if (messages && channel >= r->channels)
				r->channels = channel + 1;
			moved += messages;
		}
	return moved;
}

int proxy_progress(struct proxy *p, int rail)
{
	struct proxy_rail *r = &p->rails[rail];
	const int all = r->looks++ % LOOKS_PER_LANE == 0;
	int moved = r->transport->ops->progress(r->transport) > 0,
	    messages = move_channels(p, rail, all ? (uint32_t)REMOTE_CHANNELS : r->channels);
	if (messages)
		atomic_fetch_add_explicit(&p->moved, (uint64_t)messages, memory_order_relaxed);
	return moved || messages;
}

static int lane_has_work(const struct proxy *p, int i, uint32_t lane)
{
	const struct proxy_lane *at = &p->peers[i].lanes[lane];
	const struct remote_words *words = remote_words_of(&p->params.remote, i);
	struct link *l = at->link;
	if (proxy_load(&words->posted[lane]) != l->posted || proxy_load(&words->taken[lane]) != link_taken(l))
		return 1;
	return l->ops->poll(l, 0) || (l->posted && l->ops->poll(l, 1)) ||
	       atomic_load_explicit(&l->arrived, memory_order_relaxed) != at->delivered ||
	       (l->posted &&
		atomic_load_explicit(&l->limit, memory_order_relaxed) > words->free[lane] + REMOTE_DEPTH);
}

int proxy_has_work(const struct proxy *p, int rail)
{
	for (int i = 0; i < p->params.remote.peers; i++)
		for (uint32_t lane = 0; !p->rails[rail].lost[i] && lane < REMOTE_LANES; lane++)
			if (proxy_rail_of(p, lane) == rail && lane_has_work(p, i, lane))
				return 1;
	return 0;
}

uint64_t proxy_moved(const struct proxy *p)
{
	return atomic_load_explicit(&p->moved, memory_order_relaxed);
}

enum proxy_state proxy_state(const struct proxy *p)
{
	const struct remote_progress *calls = remote_progress_of(&p->params.remote);
	const uint64_t ended = proxy_load(&calls->ended);
	if (proxy_load(&calls->begun) != ended)
		return PROXY_RUNNING;
	return ended < atomic_load(&p->enqueued) ? PROXY_ENQUEUED : PROXY_IDLE;
}

int proxy_lost(const struct proxy *p)
{
	return atomic_load_explicit(&p->lost, memory_order_relaxed) - 1;
}

/* ---- Its life ----------------------------------------------------------------------------------------------- */

static void let_go(void *arg)
{
	struct proxy *p = arg;
	atomic_fetch_sub(&p->held, 1);
}

/* In the kernels' memory, where the transport has links of its own. */
static int open_lane(struct proxy *p, int i, uint32_t lane)
{
	struct transport *t = p->params.rails[proxy_rail_of(p, lane)];
	const struct remote *r = &p->params.remote;
	const struct link_memory memory = { .depth = REMOTE_DEPTH,
					    .bytes = r->slot_bytes,
					    .in = remote_data_at(r, i, REMOTE_IN, lane, 0),
					    .out = remote_data_at(r, i, REMOTE_OUT, lane, 0),
					    .release = let_go,
					    .ctx = p };
	const struct link_params params = { .rank = p->params.rank,
					    .peer = p->peers[i].rank,
					    .lane = PROXY_FIRST_LANE + (int)lane,
					    .slots = &p->slots,
					    .memory = t->ops->links ? &memory : NULL };
	struct link **link = &p->peers[i].lanes[lane].link;
	int ret = p->ops->open(t, &params, link);
	if (!ret && params.memory)
		atomic_fetch_add(&p->held, 1);
	return ret ? ret : p->ops->open_in(*link); /* a peer that wants it can't make it */
}

static struct proxy *allocate(const struct proxy_params *params)
{
	const size_t peers = (size_t)params->remote.peers;
	struct proxy *p = calloc(1, sizeof *p);
	int there = p && (p->peers = calloc(peers, sizeof *p->peers));
	for (int rail = 0; there && rail < params->nrails; rail++)
		there = (p->rails[rail].lost = calloc(peers, 1)) != NULL;
	if (there)
		return p;
	proxy_free(p);
	return NULL;
}

int proxy_create(const struct proxy_params *params, struct proxy **out)
{
	int ret = 0;
	struct proxy *p = allocate(params);
	if (!p)
		return log_error(CORALE_ENOMEM, params->rank,
				 "no memory for messages to %d ranks of other nodes", params->remote.peers);
	p->params = *params;
	p->ops = params->rails[0]->ops->links ? params->rails[0]->ops->links : &link_messages;
	p->slots = (struct transport_slots){ .depth = REMOTE_DEPTH,
					     .bytes = params->remote.slot_bytes,
					     .cap = SIZE_MAX };
	for (int rail = 0; rail < params->nrails; rail++)
		p->rails[rail].transport = params->rails[rail];
	for (int i = 0; !ret && i < params->remote.peers; i++) {
		p->peers[i].rank = params->ranks[i];
		for (uint32_t lane = 0; !ret && lane < REMOTE_LANES; lane++)
			ret = open_lane(p, i, lane);
	}
	if (ret)
		proxy_free(p);
	else
		*out = p;
	return ret;
}

int proxy_free(struct proxy *p)
{
	int held = p && atomic_load(&p->held);
	for (int i = 0; p && p->peers && i < p->params.remote.peers; i++)
		for (uint32_t lane = 0; lane < REMOTE_LANES; lane++) {
			struct link *l = p->peers[i].lanes[lane].link;
			if (l && p->ops->free)
				p->ops->free(l);
		}
	if (held) /* a link may still say that it lets go */
		return 0;
	for (int rail = 0; p && rail < TRANSPORT_RAILS; rail++)
		free(p->rails[rail].lost);
	if (p)
		free(p->peers);
	free(p);
	return 1;
}
