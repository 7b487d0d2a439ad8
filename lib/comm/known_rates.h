/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process knows of messages between nodes, from the communicators that it has made: the rates that all ranks of one have agreed on. A rank
 * tells the others a hash of the last ones, so that ranks that know the same exchange nothing more. Any thread.
 */
#ifndef KNOWN_RATES_H
#define KNOWN_RATES_H

#include "plan/machine/net_rates.h"

/* The hash of the last rates of a transport; 0: none are known. */
uint64_t known_rates_last(const char *transport);
/* The rates with a hash that known_rates_last has returned, which stay; not valid: it has returned no such one. */
struct net_sample known_rates_of(const char *transport, uint64_t hash);
/* From now on they are the last. With many different ones, later ones are not kept. */
void known_rates_keep(const char *transport, const struct net_sample *rates);

#endif
