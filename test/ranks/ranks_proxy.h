/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two sources of ranks_proxy share: a communicator as its kernels see it, whose messages proxies carry. */
#ifndef RANKS_PROXY_H
#define RANKS_PROXY_H

#include "base/settings.h"
#include "test/helpers/fake_gpu_memory.h"
#include "net/proxy.h"

enum { PROXY_WORLD_RANKS = 4, PROXY_WORLD_SLOT = 64 << 10 };

struct proxy_connection_end {
	uint64_t sent, taken;
	remote_offset offsets[2]; /* by enum remote_direction */
};

struct proxy_world {
	uint64_t id;
	int rank, size, in_gpu; /* in_gpu: slots lie where no CPU may touch them */
	int peers[PROXY_WORLD_RANKS];
	struct proxy_params params;
	struct remote remote; /* as kernels reach it */
	struct fake_gpu_memory gpu;
	struct proxy *proxy;
	uint64_t through_slots; /* messages that were posted from slots */
	struct proxy_connection_end connections[PROXY_WORLD_RANKS][REMOTE_CONNECTIONS];
};

struct proxy_world *proxy_world_open(void);
void proxy_world_close(struct proxy_world *w, int64_t timeout_ns);

/* A call is under way from here to its end: its proxy is awake. */
void proxy_world_begin(struct proxy_world *w);
void proxy_world_end(struct proxy_world *w);

/* The next message of a connection to or from peer i, of so many bytes, which follow from the connection and its number. 1: done; 0: not yet. is_few: in front of its
 * slot alone. */
int proxy_world_post(struct proxy_world *w, int i, uint32_t index, size_t bytes, int is_few);
int proxy_world_take(struct proxy_world *w, int i, uint32_t index, size_t bytes);

/* Counts a failure of the case that runs; ends the program. */
void proxy_world_expect(int good, const char *what);
void proxy_world_give_up(const char *what);

/* The case of test/ranks/ranks_proxy_lists.c. */
void ranks_proxy_lists(const struct settings *settings);

#endif
