/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the ranks of a node come to map each other's windows: as descriptors that are passed over sockets. Whether these pass shows by trying: where they don't, the
 * ranks of that host are set apart, and map and windows are made anew (COMM_APART). A rank that can't pass its own tells the others, which would wait for them.
 */
#define _GNU_SOURCE
#include "comm_create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gpu.h"
#include "host/liveness.h"
#include "base/descriptor_limit.h"
#include "base/log.h"
#include "health/watch.h"

enum { WINDOW_FDS = 2 }; /* a rank's window, its process's page (liveness.h) */

struct window_hello {
	int32_t status;
	uint64_t window, probe; /* addresses in this rank's process */
	char name[FDPASS_NAME_BYTES];
};

static struct window_control *control(struct comm *comm, int local)
{
	return comm->engine.windows[local];
}

static int open_liveness(struct comm *comm, int q, int fd)
{
	if (!window_is_sealed(fd, LIVENESS_PAGE_BYTES))
		return log_error(
		    CORALE_EPEER, comm->rank,
		    "what rank %d has passed on as the page that tells of its end isn't %d bytes of shared "
		    "memory, sealed against shrinking: start all ranks with the same library",
		    comm_local_rank(comm, q), LIVENESS_PAGE_BYTES);
	comm->engine.liveness[q] = liveness_open(fd);
	return comm->engine.liveness[q]
		   ? 0
		   : log_error(CORALE_ENOMEM, comm->rank,
			       "mapping the page that tells of local rank %d's end failed", q);
}

/* Maps the windows of the local peers in other processes; those of this one are mapped already. */
static int map_peers(struct comm *comm, const struct hello *hellos, const struct window_hello *all,
		     struct fdpass *pass, int fd)
{
	struct host_engine *e = &comm->engine;
	const int mine[WINDOW_FDS] = { fd, liveness_fd() };
	int *fds;
	for (int q = 0; q < e->locals; q++) {
		const int rank = comm_local_rank(comm, q),
			  is_here = hellos[rank].process == hellos[comm->rank].process;
		e->pids[q] = is_here ? 0 : (pid_t)hellos[rank].pid;
		if (!is_here)
			continue;
		e->windows[q] = (void *)(uintptr_t)all[rank].window;
		atomic_fetch_add(&control(comm, q)->users, 1);
	}
	int ret = comm_pass_fds(comm, pass, all->name, sizeof *all, mine, WINDOW_FDS, e->pids, &fds);
	for (int q = 0; !ret && q < e->locals; q++) {
		if (!e->pids[q])
			continue;
		ret = window_map_peer(fds[q * WINDOW_FDS], e->layout.bytes, comm->rank,
				      comm_local_rank(comm, q), &e->windows[q]);
		ret = ret ? ret : open_liveness(comm, q, fds[q * WINDOW_FDS + 1]);
	}
	comm_close_fds(comm, WINDOW_FDS, fds);
	return ret;
}

/* Finds out, by trying, whose memory this process can read (P8: never assumed). */
static void probe_references(struct comm *comm, const struct hello *hellos, const struct window_hello *all)
{
	struct host_engine *e = &comm->engine;
	int refused = -1;
	for (int q = 0; q < e->locals; q++) {
		int rank = comm_local_rank(comm, q), works = !e->pids[q];
		uint64_t seen = 0;
		struct iovec here = { &seen, sizeof seen },
			     there = { (void *)(uintptr_t)all[rank].probe, sizeof seen };
		if (!works)
			works = process_vm_readv(e->pids[q], &here, 1, &there, 1, 0) == sizeof seen &&
				seen == hellos[rank].token;
		refused = works ? refused : rank;
		atomic_store(&control(comm, e->local)->can_read[q], works && comm->settings.reference);
	}
	if (refused >= 0 && comm->settings.reference)
		log_line(LOG_INFO, comm->rank,
			 "the kernel does not let this rank read rank %d's memory: large messages inside the "
			 "node are copied twice",
			 refused);
}

/* Between nodes half of the cap is for slots of links: it holds so many at least. */
static int fits(const struct comm *comm, const struct window_layout *layout)
{
	enum { LINK_SLOTS = 64 };
	const size_t cap = comm->settings.memory_cap, links = comm->topo->map.nodes > 1 ? cap / 2 : 0;
	return layout->bytes <= cap - links && (!links || LINK_SLOTS * layout->slot_bytes <= links);
}

static int choose_layout(struct comm *comm)
{
	size_t slot_bytes = comm->settings.slot_bytes;
	int locals = comm->topo->map.max_node_size; /* the same layout on all nodes keeps the plans equal */
	struct window_layout *layout = &comm->engine.layout;
	window_layout_init(layout, locals, comm->engine.channels, comm->settings.slots, slot_bytes);
	while (!fits(comm, layout) && slot_bytes > 4096) {
		slot_bytes /= 2;
		window_layout_init(layout, locals, comm->engine.channels, comm->settings.slots, slot_bytes);
	}
	if (layout->bytes > comm->settings.memory_cap)
		return log_error(
		    CORALE_ENOMEM, comm->rank,
		    "a window for %d ranks of a node takes at least %zu bytes, CORALE_MEMORY_CAP allows %zu",
		    locals, layout->bytes, comm->settings.memory_cap);
	comm->settings.slot_bytes = slot_bytes;
	window_layout_init(layout, comm->engine.locals, comm->engine.channels, comm->settings.slots,
			   slot_bytes);
	return 0;
}

/* Calls of hosts carry their data through windows. */
static int touches(const struct comm *comm)
{
	return comm->engine.locals > 1 && !comm->wants_gpu;
}

enum { SPARE_DESCRIPTORS = 16, FEW = 4 /* ranks of a node that touch each other's windows */ };

/* How a rank has fared with windows. */
struct passed {
	int32_t status;
	char why[FDPASS_WHY_BYTES]; /* CORALE_ENOTSUP: why it can't pass descriptors */
};

/* A rank that can't pass descriptors, and knows why, where nothing else has failed but what follows from it; -1: none. */
static int find_barred(const struct passed *all, int size)
{
	int barred = -1;
	for (int r = size - 1; r >= 0; r--) {
		if (all[r].status && all[r].status != CORALE_ENOTSUP && all[r].status != CORALE_EPEER)
			return -1;
		if (all[r].status == CORALE_ENOTSUP && all[r].why[0])
			barred = r;
	}
	return barred;
}

static void warn_barred(const struct comm *comm, const struct hello *host, int barred, const char *why)
{
	static _Atomic int said;
	if (!comm->rank)
		log_once(&said, LOG_WARN, comm->rank,
			 "rank %d can't pass descriptors of memory to other ranks of its host %s (%s): each "
			 "rank of that host is a node of its own, and messages take longer",
			 barred, host->name, why);
}

/* Each rank of a host with a barred one becomes a node of its own. */
static int agree_on_windows(struct comm *comm, struct hello *hellos, const struct passed *mine,
			    struct passed *all)
{
	int failed = 0;
	const int ret = bootstrap_gather(&comm->bootstrap, mine, sizeof *mine, all);
	for (int r = 0; !ret && r < comm->size; r++)
		failed |= all[r].status != 0;
	const int barred = failed ? find_barred(all, comm->size) : -1;
	if (ret || !failed)
		return ret;
	if (barred < 0)
		return comm_agree(comm, mine->status, "map the windows of its node");
	for (int r = 0; r < comm->size; r++)
		for (int q = 0; q < comm->size; q++)
			if (all[q].status == CORALE_ENOTSUP && hellos[q].host == hellos[r].host)
				hellos[r].apart = HELLO_NO_DESCRIPTORS;
	for (int r = 0; r < comm->size; r++)
		if (hellos[r].apart == HELLO_NO_DESCRIPTORS)
			hello_set_apart(&hellos[r], HELLO_NO_DESCRIPTORS, hellos[r].token);
	all[barred].why[sizeof all[barred].why - 1] = 0;
	warn_barred(comm, &hellos[barred], barred, all[barred].why);
	return COMM_APART;
}

int comm_open_windows(struct comm *comm, struct hello *hellos, int status)
{
	struct host_engine *e = &comm->engine;
	const corale_bootstrap *b = &comm->bootstrap;
	/* the peers' values are not at this address here, should a peer's process number mean this process here */
	const uint64_t probe = hellos[comm->rank].token;
	struct window_hello mine = { .probe = (uint64_t)(uintptr_t)&probe }, *all = NULL;
	struct passed passed = { 0 }, *outcomes = calloc((size_t)comm->size, sizeof *outcomes);
	struct fdpass *pass = NULL;
	int fd = -1;
	int layout = choose_layout(comm); /* the same on every rank */
	if (layout) {
		free(outcomes);
		return layout;
	}
	e->windows = calloc((size_t)e->locals, sizeof *e->windows);
	e->pids = calloc((size_t)e->locals, sizeof *e->pids);
	e->liveness = calloc((size_t)e->locals, sizeof *e->liveness);
	all = calloc((size_t)comm->size, sizeof *all);
	mine.status = status;
	if (!mine.status && !(e->windows && e->pids && e->liveness && all && outcomes))
		mine.status = log_error(CORALE_ENOMEM, comm->rank, "no memory for %d windows", e->locals);
	if (!mine.status) /* two from each peer, sockets, and what is open for a moment */
		mine.status = descriptors_need(2 * e->locals + SPARE_DESCRIPTORS, comm->rank,
					       "a communicator on this node");
	if (!mine.status)
		mine.status = watch_start(comm->rank);
	if (!mine.status)
		mine.status = window_create(e->layout.bytes, comm->rank, &fd, &e->windows[e->local]);
	if (!mine.status && touches(comm))
		window_touch(&e->layout, e->windows[e->local], 1);
	if (!mine.status)
		mine.status = fdpass_listen(&pass, mine.name);
	mine.window = mine.status ? 0 : (uint64_t)(uintptr_t)e->windows[e->local];
	int ret = all && outcomes ? 0 : CORALE_ENOMEM;
	ret = ret ? ret : bootstrap_gather(b, &mine, sizeof mine, all);
	ret = ret ? ret : mine.status;
	int failed = ret;
	for (int r = 0; !ret && r < comm->size; r++)
		failed |= all[r].status;
	if (!failed) {
		ret = map_peers(comm, hellos, all, pass, fd);
		if (!ret)
			probe_references(comm, hellos, all);
	}
	if (ret == CORALE_ENOTSUP && pass)
		snprintf(passed.why, sizeof passed.why, "%s", fdpass_why(pass));
	/* Ranks that wait for this one's descriptors find that it does not listen. */
	if (ret && ret != CORALE_ENOTSUP) {
		fdpass_close(pass);
		pass = NULL;
	}
	passed.status = ret;
	ret = outcomes ? agree_on_windows(comm, hellos, &passed, outcomes) : ret;
	for (int q = 0; !ret && touches(comm) && e->locals <= FEW && q < e->locals; q++)
		if (e->pids[q])
			window_touch(&e->layout, e->windows[q], 0);
	fdpass_close(pass);
	if (fd >= 0)
		close(fd);
	free(all);
	free(outcomes);
	return ret;
}

void comm_close_windows(struct comm *comm)
{
	struct host_engine *e = &comm->engine;
	for (int q = 0; e->liveness && q < e->locals; q++)
		liveness_close(e->liveness[q]);
	for (int q = 0; e->windows && q < e->locals; q++) {
		if (!e->windows[q])
			continue;
		if (e->pids[q] || atomic_fetch_sub(&control(comm, q)->users, 1) == 1)
			window_unmap(e->windows[q], e->layout.bytes);
	}
	free(e->windows);
	free(e->pids);
	free(e->liveness);
	e->windows = NULL;
	e->pids = NULL;
	e->liveness = NULL;
}
