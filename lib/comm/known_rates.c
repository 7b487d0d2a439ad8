/* SPDX-License-Identifier: BSD-3-Clause */
#include "known_rates.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "net/transport.h"

enum { ROWS = 16 }; /* rates are rounded to steps, so few differ */

/* A row is written once: another thread's creation may have told its hash. */
struct row {
	char transport[TRANSPORT_NAME_BYTES];
	uint64_t hash; /* 0: a free row */
	unsigned turn; /* the last time that it was kept */
	struct net_sample rates;
};

static struct {
	pthread_mutex_t lock;
	struct row rows[ROWS];
	unsigned turns;
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t hash_of(const struct net_sample *rates)
{
	return hash_bytes(hash_start, rates, sizeof *rates) | 1;
}

/* hash 0: the row that was kept last; NULL: there is none. Under the lock. */
static struct row *find(const char *transport, uint64_t hash)
{
	struct row *found = NULL;
	for (struct row *row = known.rows; row < known.rows + ROWS; row++)
		if (row->hash && !strcmp(row->transport, transport) && (!hash || row->hash == hash) &&
		    (!found || row->turn > found->turn))
			found = row;
	return found;
}

uint64_t known_rates_last(const char *transport)
{
	pthread_mutex_lock(&known.lock);
	const struct row *row = find(transport, 0);
	const uint64_t hash = row ? row->hash : 0;
	pthread_mutex_unlock(&known.lock);
	return hash;
}

struct net_sample known_rates_of(const char *transport, uint64_t hash)
{
	pthread_mutex_lock(&known.lock);
	const struct row *row = hash ? find(transport, hash) : NULL;
	const struct net_sample rates = row ? row->rates : (struct net_sample){ 0 };
	pthread_mutex_unlock(&known.lock);
	return rates;
}

static struct row *find_free(void)
{
	for (struct row *row = known.rows; row < known.rows + ROWS; row++)
		if (!row->hash)
			return row;
	return NULL;
}

void known_rates_keep(const char *transport, const struct net_sample *rates)
{
	const uint64_t hash = hash_of(rates);
	pthread_mutex_lock(&known.lock);
	struct row *row = find(transport, hash);
	if (!row && (row = find_free())) {
		row->hash = hash;
		row->rates = *rates;
		snprintf(row->transport, sizeof row->transport, "%s", transport);
	}
	if (row)
		row->turn = ++known.turns;
	pthread_mutex_unlock(&known.lock);
}
