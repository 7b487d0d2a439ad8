/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process knows of messages between nodes, from the communicators that it has made: the rates that all ranks of the last one over a transport have
 * agreed on. Any thread.
 */
#ifndef KNOWN_RATES_H
#define KNOWN_RATES_H

#include "plan/machine/net_rates.h"

/* Not valid: none are known. */
struct net_sample known_rates_last(const char *transport);
void known_rates_keep(const char *transport, const struct net_sample *rates);

#endif
