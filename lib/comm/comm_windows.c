/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the ranks of a node come to map each other's windows: as descriptors that are passed over sockets. Whether these pass shows by trying: where they don't, the
 * ranks of that host are set apart, and map and windows are made anew (COMM_APART). A rank that can't pass its own tells the others, which would wait for them.
 */
#define _GNU_SOURCE
#include "comm_create.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gpu.h"
#include "host/liveness.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "health/watch.h"

enum { WINDOW_FDS = 2 }; /* a rank's window, its process's page (liveness.h) */

static const char map_them[] = "map the windows of its node";

struct window_hello {
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

/* Ranks of a host with a barred one become nodes of their own. */
static void set_apart(const struct comm *comm, struct hello *hellos, const struct passed *all)
{
	for (int r = 0; r < comm->size; r++)
		for (int q = 0; q < comm->size; q++)
			if (all[q].status == CORALE_ENOTSUP && hellos[q].host == hellos[r].host)
				hellos[r].apart = HELLO_NO_DESCRIPTORS;
	for (int r = 0; r < comm->size; r++)
		if (hellos[r].apart == HELLO_NO_DESCRIPTORS)
			hello_set_apart(&hellos[r], HELLO_NO_DESCRIPTORS, hellos[r].token);
}

/* 0, an error, or COMM_APART: the same on all ranks. */
static int agree_on_windows(struct comm *comm, struct hello *hellos, const struct passed *mine)
{
	struct passed *all = calloc((size_t)comm->size, sizeof *all);
	int failed = 0,
	    ret = all ? bootstrap_gather(&comm->bootstrap, mine, sizeof *mine, all)
		      : log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks", comm->size);
	for (int r = 0; !ret && r < comm->size; r++)
		failed |= all[r].status != 0;
	const int barred = failed ? find_barred(all, comm->size) : -1;
	if (barred >= 0) {
		set_apart(comm, hellos, all);
		all[barred].why[sizeof all[barred].why - 1] = 0;
		warn_barred(comm, &hellos[barred], barred, all[barred].why);
		ret = COMM_APART;
	}
	free(all);
	return failed && !ret ? comm_agree(comm, mine->status, map_them) : ret;
}

/* What the ranks exchange before they map each other's windows. */
struct opening {
	struct window_hello mine, *all;
	struct fdpass *pass;
	int fd; /* of this rank's window */
};

static int make_window(struct comm *comm, struct opening *o)
{
	struct host_engine *e = &comm->engine;
	e->windows = calloc((size_t)e->locals, sizeof *e->windows);
	e->pids = calloc((size_t)e->locals, sizeof *e->pids);
	e->liveness = calloc((size_t)e->locals, sizeof *e->liveness);
	if (!e->windows || !e->pids || !e->liveness)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for %d windows", e->locals);
	/* two from each peer, sockets, and what is open for a moment */
	int ret =
	    descriptors_need(2 * e->locals + SPARE_DESCRIPTORS, comm->rank, "a communicator on this node");
	ret = ret ? ret : watch_start(comm->rank);
	ret = ret ? ret : window_create(e->layout.bytes, comm->rank, &o->fd, &e->windows[e->local]);
	if (!ret && touches(comm))
		window_touch(&e->layout, e->windows[e->local], 1);
	o->mine.window = (uint64_t)(uintptr_t)e->windows[e->local];
	return ret ? ret : fdpass_listen(&o->pass, o->mine.name);
}

/* Once all ranks have made theirs. */
static int map_windows(struct comm *comm, struct hello *hellos, struct opening *o)
{
	const struct host_engine *e = &comm->engine;
	struct passed passed = { map_peers(comm, hellos, o->all, o->pass, o->fd), "" };
	if (!passed.status)
		probe_references(comm, hellos, o->all);
	if (passed.status == CORALE_ENOTSUP) {
		snprintf(passed.why, sizeof passed.why, "%s", fdpass_why(o->pass));
	} else if (
	    passed.status) { /* ranks that wait for this one's descriptors find that it does not listen */
		fdpass_close(o->pass);
		o->pass = NULL;
	}
	const int ret = agree_on_windows(comm, hellos, &passed);
	for (int q = 0; !ret && touches(comm) && e->locals <= FEW && q < e->locals; q++)
		if (e->pids[q])
			window_touch(&e->layout, e->windows[q], 0);
	return ret;
}

int comm_open_windows(struct comm *comm, struct hello *hellos, int status)
{
	/* the peers' values are not at this address here, should a peer's process number mean this process here */
	const uint64_t probe = hellos[comm->rank].token;
	struct opening o = { .mine.probe = (uint64_t)(uintptr_t)&probe, .fd = -1 };
	const int layout = choose_layout(comm); /* the same on every rank */
	if (layout)
		return layout;
	int ret = status ? status : make_window(comm, &o);
	o.all = comm_gather(comm, &ret, map_them, &o.mine, sizeof o.mine);
	ret = ret ? ret : map_windows(comm, hellos, &o);
	fdpass_close(o.pass);
	if (o.fd >= 0)
		close(o.fd);
	free(o.all);
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
