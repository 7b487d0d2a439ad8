/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads which faults the adapter is to have, and says when each is due. */
#include "faults.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "queue_pair.h"

enum { MOST_TEXT = 1024, DEFAULT_RETRIES_MS = 2000, CORRUPTED_FROM = 1024 };

struct fake_faults fake_faults;

/* What has begun. */
static struct {
	long requests, payloads;
	uint64_t until; /* 0: for ever */
	int is_halted, is_down, is_dead;
} state;

static const struct {
	const char *name;
	long *value, default_value;
} words[] = {
	{ "rank", &fake_faults.rank, -1 },
	{ "device", &fake_faults.device, 1 },
	{ "open", &fake_faults.open, 1 },
	{ "register", &fake_faults.most_registered, LONG_MAX },
	{ "register_gpu", &fake_faults.register_gpu, 1 },
	{ "peermem", &fake_faults.peermem, 1 },
	{ "dmabuf", &fake_faults.dmabuf, 1 },
	{ "late", &fake_faults.late, 1 },
	{ "delay_ms", &fake_faults.delay_ms, 0 },
	{ "reorder_pairs", &fake_faults.reorder_pairs, 0 },
	{ "reorder_relaxed", &fake_faults.reorder_relaxed, 0 },
	{ "corrupt", &fake_faults.corrupt, 0 },
	{ "stop", &fake_faults.stop, 0 },
	{ "stop_ms", &fake_faults.stop_ms, 0 },
	{ "down", &fake_faults.down, 0 },
	{ "down_ms", &fake_faults.down_ms, 0 },
	{ "die", &fake_faults.die, 0 },
	{ "retries_ms", &fake_faults.retries_ms, 0 },
};

enum { WORDS = sizeof(words) / sizeof(*words) };

uint64_t fake_now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* yes, no, or a number. */
static int value_of(const char *text, long *value)
{
	char *end;
	if (!strcmp(text, "yes") || !strcmp(text, "no")) {
		*value = *text == 'y';
		return 1;
	}
	*value = strtol(text, &end, 10);
	return *text && !*end && *value >= 0;
}

static void set(const char *word)
{
	const char *value = strchr(word, '=');
	for (size_t i = 0; value && i < WORDS; i++) {
		const size_t length = strlen(words[i].name);
		if (length == (size_t)(value - word) && !strncmp(word, words[i].name, length) &&
		    value_of(value + 1, words[i].value))
			return;
	}
	fprintf(stderr,
		"fake_verbs: FAKE_VERBS has '%s', which is no fault with a value; test/fake_verbs/faults.h "
		"lists them\n",
		word);
	exit(2);
}

static void set_defaults(void)
{
	for (size_t i = 0; i < WORDS; i++)
		*words[i].value = words[i].default_value;
}

/* Open MPI's word and Hydra's. */
static int is_rank(long rank)
{
	const char *text = getenv("OMPI_COMM_WORLD_RANK");
	if (!text)
		text = getenv("PMI_RANK");
	return rank < 0 || !text || atol(text) == rank;
}

void fake_faults_read(void)
{
	static char before[MOST_TEXT] = "not read";
	char text[MOST_TEXT], *rest = text;
	const char *now = getenv("FAKE_VERBS");
	snprintf(text, sizeof(text), "%s", now ? now : "");
	if (!strcmp(text, before))
		return;
	memcpy(before, text, sizeof(before));
	memset(&state, 0, sizeof(state));
	set_defaults();
	for (char *word; (word = strtok_r(rest, " ", &rest));)
		set(word);
	if (!fake_faults.retries_ms && (fake_faults.stop || fake_faults.down))
		fake_faults.retries_ms = DEFAULT_RETRIES_MS;
	if (!is_rank(fake_faults.rank)) {
		const struct fake_faults all = fake_faults;
		set_defaults();
		fake_faults.late = all.late;
		fake_faults.retries_ms = all.retries_ms;
	}
}

int fake_faults_are_timed(void)
{
	const struct fake_faults *f = &fake_faults;
	return f->delay_ms || f->reorder_pairs || f->reorder_relaxed || f->stop || f->down || f->retries_ms;
}

static void halt(long ms)
{
	state.is_halted = 1;
	state.until = ms && ms < fake_faults.retries_ms ? fake_now_ms() + (uint64_t)ms : 0;
}

static void die(void)
{
	state.is_dead = 1;
	for (struct fake_qp *q = fake_qp_first(); q; q = q->next)
		fake_qp_fail(q, IBV_WC_SUCCESS);
	fake_event_all(IBV_EVENT_DEVICE_FATAL);
	fake_wire_die();
}

void fake_faults_count(void)
{
	const long n = ++state.requests;
	if (n == fake_faults.stop)
		halt(fake_faults.stop_ms);
	if (n == fake_faults.down) {
		state.is_down = 1;
		halt(fake_faults.down_ms);
		fake_event_all(IBV_EVENT_PORT_ERR);
	}
	if (n == fake_faults.die)
		die();
}

int fake_faults_halted(void)
{
	if (!state.is_halted || !state.until || fake_now_ms() < state.until)
		return state.is_halted;
	if (state.is_down)
		fake_event_all(IBV_EVENT_PORT_ACTIVE);
	state.is_halted = state.is_down = 0;
	return 0;
}

int fake_faults_is_down(void)
{
	return state.is_down || state.is_dead;
}

int fake_faults_is_dead(void)
{
	return state.is_dead;
}

int fake_faults_corrupts(uint64_t bytes)
{
	return bytes >= CORRUPTED_FROM && ++state.payloads == fake_faults.corrupt;
}
