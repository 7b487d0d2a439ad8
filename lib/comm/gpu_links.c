/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the GPUs of a CUDA communicator reach each other: which ranks may be one node, and by which protocols small messages may travel. One all-gather of a byte for
 * each rank of a host, before the map of ranks is made; each rank joins the first node in all of which it fits. NVLink carries a line of 128 bytes whole, PCIe may
 * tear it: one pair without NVLink, or unknown, and no rank of any node sends lines (gpu_machine.words_only).
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sort.h"
#include "comm_create.h"
#include "gpu.h"
#include "plan/codelet/row.h"

/* What all ranks know: the link from rank r to the k-th rank of its host is at link[r * most + k]. */
struct links {
	const struct hello *hellos;
	int size, most; /* ranks, and those of the largest host */
	const uint8_t *link; /* enum engine_link */
};

/* Two ranks, and how one's GPU reaches the other's. */
struct pair {
	int from, to;
	enum engine_link link;
};

static int by_host(const void *x, const void *y)
{
	const struct hello *a = *(const struct hello *const *)x, *b = *(const struct hello *const *)y;
	const int ret = sort_differ(a->node, b->node);
	return ret ? ret : sort_differ((uintptr_t)a, (uintptr_t)b); /* by rank */
}

/* place[r]: how many ranks before r are on its host. Returns how many the largest host has, 0 without memory. */
static int count_places(const struct hello *hellos, int size, int *place)
{
	const struct hello **sorted = calloc((size_t)size, sizeof *sorted);
	int most = 0;
	for (int r = 0; sorted && r < size; r++)
		sorted[r] = &hellos[r];
	if (sorted)
		sort_items(sorted, (size_t)size, sizeof *sorted, by_host);
	for (int i = 0, here = 0; sorted && i < size; i++, here++) {
		if (i && sorted[i]->node != sorted[i - 1]->node)
			here = 0;
		place[sorted[i] - hellos] = here;
		most = here >= most ? here + 1 : most;
	}
	free(sorted);
	return most;
}

/* This rank's row. */
static int ask(const struct comm *comm, const struct hello *hellos, int most, uint8_t *row)
{
	struct engine_identity *gpus = calloc((size_t)most, sizeof *gpus);
	enum engine_link *found = calloc((size_t)most, sizeof *found);
	int n = 0,
	    ret = gpus && found ? 0 : log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks", most);
	for (int r = 0; !ret && r < comm->size; r++)
		if (hellos[r].node == hellos[comm->rank].node)
			gpus[n++] = hellos[r].id;
	if (!ret)
		engine_process.links(gpus, n, found);
	for (int r = 0, k = 0; !ret && r < comm->size; r++)
		if (hellos[r].node == hellos[comm->rank].node) {
			const struct hello *mine = &hellos[comm->rank];
			const int is_denied =
			    r != comm->rank && (hellos[r].no_access || mine->no_access ||
						gpu_peers_are_bad(&hellos[r].id, &mine->id));
			row[k] = (uint8_t)(is_denied ? ENGINE_NO_LINK : found[k]);
			k++;
		}
	free(gpus);
	free(found);
	return ret;
}

static enum engine_link link_of(const struct links *l, const int *place, int from, int to)
{
	return (enum engine_link)l->link[(size_t)from * (size_t)l->most + (size_t)place[to]];
}

static int reach_each_other(const struct links *l, const int *place, int a, int b)
{
	return link_of(l, place, a, b) != ENGINE_NO_LINK && link_of(l, place, b, a) != ENGINE_NO_LINK;
}

/* The first rank of the first node of its host in all of which a rank fits; itself: of none. */
static int find_node(const struct links *l, const int *place, const int *first, int rank)
{
	for (int head = 0; head < rank; head++) {
		int fits = first[head] == head && l->hellos[head].node == l->hellos[rank].node;
		for (int q = head; fits && q < rank; q++)
			fits = first[q] != head || reach_each_other(l, place, q, rank);
		if (fits)
			return head;
	}
	return rank;
}

/* The slowest link of a node, or of a host that is divided. */
static struct pair find_worst(const struct links *l, const int *place, const int *first)
{
	struct pair worst = { 0, 0, ENGINE_NVLINK };
	for (int a = 0; a < l->size; a++)
		for (int b = 0; b < l->size; b++)
			if (l->hellos[a].node == l->hellos[b].node && (!first || first[a] == first[b]) &&
			    link_of(l, place, a, b) < worst.link)
				worst = (struct pair){ a, b, link_of(l, place, a, b) };
	return worst;
}

/* By one rank for all; warnings once a process. */
static void log_links(const struct comm *comm, struct pair w)
{
	static _Atomic int said;
	static const char how[] =
	    "small messages go by words of 8 bytes (LL), longer ones through slots (FIFO)";
	if (comm->rank)
		return;
	if (w.link == ENGINE_UNKNOWN_LINK)
		log_once(&said, LOG_WARN, comm->rank,
			 "whether there is NVLink between the GPUs of ranks %d and %d can't be told: %s, "
			 "which may be slower than need be; let the processes load libnvidia-ml.so.1 (in "
			 "containers: "
			 "NVIDIA_DRIVER_CAPABILITIES=compute,utility), or see all GPUs of their node",
			 w.from, w.to, how);
	else if (w.link == ENGINE_PEER)
		log_line(LOG_INFO, comm->rank, "the GPUs of ranks %d and %d have no NVLink between them: %s",
			 w.from, w.to, how);
	else if (plan_words_forced(&comm->settings))
		log_line(LOG_INFO, comm->rank, "CORALE_PROTO=LL: %s", how);
}

static void warn_divided(const struct comm *comm, const struct hello *hellos, struct pair w)
{
	static _Atomic int said;
	if (!comm->rank && w.link == ENGINE_NO_LINK)
		log_once(&said, LOG_WARN, comm->rank,
			 "the GPUs of ranks %d and %d on host %s can't reach each other's memory (no peer "
			 "access): they are on "
			 "nodes of their own, between which messages go through host memory and take longer",
			 w.from, w.to, hellos[w.from].name);
}

/* ---- A window in host memory instead ------------------------------------------------------------------------ */

/* 1 if all ranks allow it, and no two of a host reach each other: what GPUs have between them is faster. */
static int wants_host_window(const struct links *l, const int *place)
{
	int wants = 0;
	for (int r = 0; r < l->size; r++) {
		if (!l->hellos[r].host_window)
			return 0;
		for (int q = 0; q < r; q++) {
			if (l->hellos[q].node != l->hellos[r].node)
				continue;
			if (reach_each_other(l, place, q, r))
				return 0;
			wants = 1;
		}
	}
	return wants;
}

/* 1 if each rank's GPU takes the windows of its host's ranks. The first one whose doesn't says why, for all. */
static int host_windows_work(struct comm *comm, const struct hello *hellos, int *ret)
{
	static _Atomic int said;
	char why[ENGINE_WHY_BYTES] = "";
	int beside = 0, refuses = -1;
	for (int r = 0; r < comm->size; r++)
		beside += hellos[r].node == hellos[comm->rank].node;
	const uint8_t mine = beside == 1 || engine_process.host_window_works(
						beside, comm->settings.host_window, why, sizeof why);
	uint8_t *all =
	    comm_gather(comm, ret, "find out whether its GPU takes host memory", &mine, sizeof mine);
	for (int r = comm->size; all && r--;)
		refuses = all[r] ? refuses : r;
	if (refuses == comm->rank)
		log_once(&said, LOG_WARN, comm->rank,
			 "%s: the GPUs of this host, and of all others, are nodes of their own", why);
	const int work = all && refuses < 0;
	free(all);
	return work;
}

/* All ranks of a host are a node. */
static void share_host(struct comm *comm, const struct links *l, const int *place)
{
	const struct pair w = find_worst(l, place, NULL);
	comm->words_only = 1;
	if (!comm->rank)
		log_line(LOG_INFO, comm->rank,
			 "the GPUs of ranks %d and %d on host %s don't reach each other's memory: the ranks "
			 "of each host share "
			 "%zu bytes of host memory each (CORALE_HOST_WINDOW)",
			 w.from, w.to, l->hellos[w.from].name, comm->settings.host_window);
}

/* Ranks of a divided host know each other's node by its first rank. */
static void divide(struct hello *hellos, int size, const int *first)
{
	for (int r = 0; r < size; r++)
		for (int q = 0; q < size; q++)
			if (hellos[q].host == hellos[r].host && hellos[q].apart != HELLO_ASKED &&
			    hellos[r].apart != HELLO_ASKED && first[q] != first[r])
				hellos[r].apart = HELLO_NO_ACCESS;
	for (int r = 0; r < size; r++)
		if (hellos[r].apart == HELLO_NO_ACCESS)
			hello_set_apart(&hellos[r], HELLO_NO_ACCESS, (uint64_t)first[r]);
}

/* Ranks that asked for it are nodes of their own; first: room for a number a rank. */
static void share(struct comm *comm, struct hello *hellos, int most, const uint8_t *all, const int *place,
		  int *first)
{
	const struct links l = { hellos, comm->size, most, all };
	for (int r = 0; r < comm->size; r++)
		if (hellos[r].no_access && hellos[r].apart == HELLO_TOGETHER)
			hello_set_apart(&hellos[r], HELLO_ASKED, hellos[r].token);
	for (int r = 0; r < comm->size; r++)
		first[r] = find_node(&l, place, first, r);
	const struct pair worst = find_worst(&l, place, first);
	comm->peers_on_bus = worst.link == ENGINE_PEER;
	comm->words_only = worst.link != ENGINE_NVLINK || plan_words_forced(&comm->settings);
	log_links(comm, worst);
	warn_divided(comm, hellos, find_worst(&l, place, NULL));
	divide(hellos, comm->size, first);
}

int gpu_find_links(struct comm *comm, struct hello *hellos)
{
	int *places = calloc(2 * (size_t)comm->size, sizeof *places);
	const int most = places ? count_places(hellos, comm->size, places) : 0;
	if (!most) {
		free(places);
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks", comm->size);
	}
	uint8_t *row = calloc((size_t)most, 1);
	int ret = row ? ask(comm, hellos, most, row)
		      : log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks", comm->size);
	uint8_t *all = comm_gather(comm, &ret, "find out how it reaches its peers' GPUs", row, (size_t)most);
	const struct links l = { hellos, comm->size, most, all };
	comm->host_window = all && wants_host_window(&l, places) && host_windows_work(comm, hellos, &ret);
	if (comm->host_window)
		share_host(comm, &l, places);
	else if (all && !ret)
		share(comm, hellos, most, all, places, places + comm->size);
	free(all);
	free(row);
	free(places);
	return ret;
}
