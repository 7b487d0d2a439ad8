/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of large calls that the node's other ranks read where they lie: which exports of each rank are mapped here, and where a call's buffers are. */
#include "engine_cuda.h"

#include <stdlib.h>

#include "base/collectives.h"
#include "base/log.h"
#include "exporter.h"

int engine_board_fd(struct engine *e)
{
	int ret = e->exporter ? 0 : exporter_open(&e->driver, e->ordinal, e->world_rank, &e->exporter);
	return ret ? -1 : exporter_fd(e->exporter);
}

static size_t tables_bytes(const struct engine *e)
{
	return (size_t)e->ranks * sizeof(*e->exports);
}

int engine_attach_exports(struct engine *e, const int *fds, int stride)
{
	int ret = 0;
	e->exports = calloc((size_t)e->ranks, sizeof *e->exports);
	if (!e->exports)
		return log_error(CORALE_ENOMEM, e->world_rank, "no memory for the tables of %d peers",
				 e->ranks);
	for (int r = 0; !ret && r < e->ranks; r++)
		ret = exporter_attach(e->exporter, r == e->rank ? exporter_fd(e->exporter) : fds[r * stride],
				      &e->exports[r]);
	e->exporter_user = (struct exporter_user){ .rests = engine_rests, .arg = e };
	exporter_add_user(e->exporter, &e->exporter_user);
	ret = ret ? ret : engine_malloc(e, tables_bytes(e), (void **)&e->gpu_exports);
	ret = ret ? ret : engine_put(e, e->gpu_exports, e->exports, tables_bytes(e));
	e->machine.zero_copy = ret ? 0 : LAUNCH_ZERO_COPY_BLOCKS;
	if (!ret)
		log_line(LOG_INFO, e->world_rank,
			 "zero-copy: tables of peers' memory, for all communicators of this process on the "
			 "GPU: %zu bytes of it",
			 exporter_bytes(e->exporter));
	return ret;
}

void engine_close_exports(struct engine *e)
{
	for (int r = 0; e->exports && r < e->ranks; r++)
		if (e->exports[r])
			exporter_detach(e->exporter, e->exports[r]);
	if (e->exports)
		exporter_remove_user(e->exporter, &e->exporter_user);
	free(e->exports);
	if (e->gpu_exports)
		engine_mfree(e, e->gpu_exports, tables_bytes(e));
	if (e->exporter)
		exporter_close(e->exporter);
}

/* A premultiplied sum's scalar is known to its own rank alone. */
static int cannot_be_read(const struct engine *e, const struct call *c)
{
	const int premultiplied = coll_folds(c->record.coll) && c->record.op >= CORALE_NUM_OPS;
	return premultiplied || e->staging || call_overwrites(c, e->world_rank);
}

static void use_exports(const struct engine *e, struct codelet_zero_copy *z)
{
	z->exports = (const struct exports *const *)e->gpu_exports;
	z->own = exporter_own(e->exporter);
}

void engine_name_buffers(struct engine *e, const struct call *c, struct codelet_zero_copy *z)
{
	const corale_coll coll = c->record.coll;
	const uint64_t bytes = call_bytes(c), all = bytes * (uint64_t)e->ranks;
	const int captured = c->admission.capture != 0;
	use_exports(e, z);
	z->read = codelet_read_by_peers(coll, c->record.root == e->world_rank, e->ranks);
	z->cannot = (uint32_t)cannot_be_read(e, c);
	if (z->cannot)
		return;
	if (z->read & CODELET_READS_SEND)
		z->send = exporter_find(e->exporter, c->send, coll_sends_each(coll) ? all : bytes, captured);
	if (z->read & CODELET_READS_RECV)
		z->recv =
		    exporter_find(e->exporter, c->recv, coll_receives_each(coll) ? all : bytes, captured);
}

void engine_name_messages(struct engine *e, struct codelet_p2p *g, int n, int captured)
{
	int may_be_read = 0;
	for (int i = 0; i < n; i++) {
		const struct codelet_message *m = &g->messages[i];
		if (m->from || !codelet_may_be_read(&g->group, m->bytes))
			continue;
		may_be_read = 1;
		if (m->sending && !e->staging)
			g->places[i] = exporter_find(e->exporter, m->data, m->bytes, captured).number;
	}
	if (may_be_read)
		use_exports(e, &g->group.args.zero_copy);
}
