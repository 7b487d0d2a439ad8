/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer access that lies: a process's first communicator tries each pair of GPUs of a node in both directions. A pair that fails is remembered by all processes of the
 * communicator, which is then made anew, as if that pair had no access.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm_create.h"
#include "gpu.h"

enum { MOST_PAIRS = 256, PAIR_BYTES = 2 * ENGINE_UUID_BYTES };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char bad[MOST_PAIRS][PAIR_BYTES]; /* two GPUs each */
static int nbad, have_tried;

static void print_pair(const struct engine_identity *a, const struct engine_identity *b,
		       unsigned char pair[PAIR_BYTES])
{
	const int in_order = memcmp(a->uuid, b->uuid, ENGINE_UUID_BYTES) < 0;
	memcpy(pair, (in_order ? a : b)->uuid, ENGINE_UUID_BYTES);
	memcpy(pair + ENGINE_UUID_BYTES, (in_order ? b : a)->uuid, ENGINE_UUID_BYTES);
}

int gpu_peers_are_bad(const struct engine_identity *a, const struct engine_identity *b)
{
	unsigned char pair[PAIR_BYTES];
	int found = 0;
	print_pair(a, b, pair);
	pthread_mutex_lock(&lock);
	for (int i = 0; !found && i < nbad; i++)
		found = !memcmp(bad[i], pair, sizeof pair);
	pthread_mutex_unlock(&lock);
	return found;
}

static void note_bad(const struct gpu_hello *a, const struct gpu_hello *b)
{
	if (gpu_peers_are_bad(&a->id, &b->id))
		return;
	pthread_mutex_lock(&lock);
	if (nbad < MOST_PAIRS)
		print_pair(&a->id, &b->id, bad[nbad++]);
	pthread_mutex_unlock(&lock);
}

int gpu_peers_are_tried(void)
{
	pthread_mutex_lock(&lock);
	const int tried = have_tried;
	pthread_mutex_unlock(&lock);
	return tried;
}

static void set_tried(void)
{
	pthread_mutex_lock(&lock);
	have_tried = 1;
	pthread_mutex_unlock(&lock);
}

/* From what all ranks have found: wrong[r * most + k]: rank r and the k-th of its node. Returns how many pairs. */
static int note_pairs(const struct comm *comm, const struct gpu_hello *all, const unsigned char *wrong)
{
	const struct plan_map *map = &comm->topo->map;
	int pairs = 0;
	for (int r = 0; r < comm->size; r++)
		for (int k = 0; k < plan_group_size(map, PLAN_NODE, r); k++) {
			const int other = map->member[map->node_first[map->node_of[r]] + k];
			if (!wrong[r * map->max_node_size + k])
				continue;
			if (!pairs++ && !comm->rank)
				log_line(LOG_WARN, comm->rank,
					 "what the GPUs of ranks %d and %d (%s, %s) store in each other's "
					 "memory arrives wrong, though the "
					 "driver grants peer access: they are taken for GPUs without it; "
					 "look for PCIe ACS or an IOMMU on "
					 "this host (CORALE_P2P_CHECK=no leaves this trial out)",
					 r, other, all[r].id.pci, all[other].id.pci);
			note_bad(&all[r], &all[other]);
		}
	return pairs;
}

static int is_wanted(const struct comm *comm, const struct gpu_hello *all)
{
	int untried = 0;
	for (int r = 0; r < comm->size; r++)
		untried |= all[r].untried;
	const int check = comm->settings.p2p_check;
	return untried && (check == SETTINGS_AUTO ? comm->peers_on_bus : check) && !comm->host_window &&
	       engine_cuda.try_peers && comm->topo->map.max_node_size > 1;
}

int gpu_try_peers(struct comm *comm, const struct gpu_hello *all)
{
	if (!is_wanted(comm, all))
		return 0;
	const size_t most = (size_t)comm->topo->map.max_node_size;
	const double timeout_s = comm_wait_seconds(comm);
	unsigned char *mine = calloc(most, 1);
	int ret = mine ? engine_cuda.try_peers(comm->gpu, comm->id, timeout_s, NULL)
		       : log_error(CORALE_ENOMEM, comm->rank, "no memory for %zu ranks", most);
	ret = comm_agree(comm, ret, "copy to its peers' GPUs");
	if (!ret)
		ret = engine_cuda.try_peers(comm->gpu, comm->id, timeout_s, mine);
	unsigned char *wrong = comm_gather(comm, &ret, "read what its peers' GPUs have copied", mine, most);
	const int pairs = wrong ? note_pairs(comm, all, wrong) : 0;
	free(wrong);
	free(mine);
	if (!ret)
		set_tried();
	return ret ? ret : pairs ? COMM_AGAIN : 0;
}
