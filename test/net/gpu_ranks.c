/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs two ranks with slots in a stand-in for GPU memory over the adapter of test/fake_verbs. */
#include "gpu_ranks.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/wait.h"
#include "net/ucx/transport_ucx.h"

enum { SLAB_BYTES = 1 << 20, CASE_S = 60 };

void gpu_expect(int good, const char *what, const char *file, int line)
{
	if (good)
		return;
	fprintf(stderr, "%s:%d: not so: %s; last error: %s\n", file, line, what, log_last_error());
	_exit(1);
}

/* ---- Transports ---- */

static void on_control(void *ctx, int peer, const void *message, size_t bytes)
{
}

static void on_failure(void *ctx, int peer, int code, const char *reason)
{
	struct gpu_rank *r = ctx;
	EXPECT(r && peer == 1 - r->rank);
	snprintf(r->reason, sizeof(r->reason), "%s", reason);
	r->code = code;
	r->failures++;
}

static int gather(void *ctx, const void *mine, size_t bytes, void *all)
{
	const struct gpu_rank *r = ctx;
	unsigned char *at = all;
	memcpy(at + (size_t)r->rank * bytes, mine, bytes);
	if (r->size == 1)
		return 0;
	if (write(r->socket, mine, bytes) != (ssize_t)bytes)
		return 1;
	return recv(r->socket, at + (size_t)(1 - r->rank) * bytes, bytes, MSG_WAITALL) != (ssize_t)bytes;
}

static int open_transport(struct gpu_rank *r, int rail, int gpu_slots, const char *devices)
{
	static const unsigned char needed[2];
	static uint64_t id;
	const corale_bootstrap bootstrap = { r->rank, r->size, r, gather };
	const struct settings *settings;
	EXPECT(!settings_get(&settings));
	const struct transport_params params = {
		.rank = r->rank,
		.size = r->size,
		.comm_id = ++id,
		.rail = rail,
		.needed = needed,
		.settings = settings,
		.devices = devices,
		.gpu_slots = gpu_slots,
		.slots = { .links = 1, .depth = GPU_DEPTH, .bytes = GPU_SLOT_BYTES, .cap = SIZE_MAX },
		.on_control = on_control,
		.on_failure = on_failure,
		.handler_ctx = r
	};
	return transport_open(&transport_ucx, &params, &bootstrap, &r->t);
}

int gpu_open_alone(int rail, int gpu_slots, const char *devices, struct transport **out)
{
	static struct gpu_rank alone = { .size = 1 };
	const int ret = open_transport(&alone, rail, gpu_slots, devices);
	*out = alone.t;
	return ret;
}

int gpu_map(struct transport *t, struct fake_gpu_memory *gpu, struct link_slab **slab, char *why)
{
	EXPECT(!fake_gpu_memory_map(gpu, SLAB_BYTES));
	return link_map(t, gpu->address, gpu->bytes, 1, slab, why, LINK_WHY_BYTES);
}

/* ---- Two ranks ---- */

static void on_release(void *rank)
{
	((struct gpu_rank *)rank)->released++;
}

void gpu_rank_open(struct gpu_rank *r, int gpu_slots)
{
	char why[LINK_WHY_BYTES] = "";
	const size_t ring = (size_t)GPU_DEPTH * GPU_SLOT_BYTES;
	EXPECT(!open_transport(r, 0, gpu_slots, NULL));
	if (gpu_slots)
		EXPECT(!gpu_map(r->t, &r->gpu, &r->slab, why));
	r->memory = (struct link_memory){ .slab = r->slab,
					  .depth = GPU_DEPTH,
					  .bytes = GPU_SLOT_BYTES,
					  .in = r->gpu.address,
					  .out = r->gpu.address + ring,
					  .release = on_release,
					  .ctx = r };
	const struct link_params params = { .rank = r->rank,
					    .peer = 1 - r->rank,
					    .memory = gpu_slots ? &r->memory : NULL };
	EXPECT(!link_open(r->t, &params, &r->link));
}

static unsigned char byte_of(uint64_t number, size_t i)
{
	return (unsigned char)(number * 7 + 1 + (i * 31 >> 2));
}

/*
 * Polls until it says other than 0, or for so long: 0 then. A rank that waits asks its peer now and then, as Corale's watch thread does: without
 * a message under way an adapter says nothing of a peer that has gone.
 */
static int poll_until(struct gpu_rank *r, int (*poll_link)(struct link *l), int64_t ms)
{
	const int64_t ask_ns = 100000000, until = wait_now_ns() + ms * 1000000;
	int64_t asked = wait_now_ns(), now = asked;
	int ret = 0;
	while (!(ret = poll_link(r->link)) && now < until) {
		if (!r->t->ops->progress(r->t))
			poll(NULL, 0, 1);
		now = wait_now_ns();
		if (now - asked < ask_ns)
			continue;
		transport_control(r->t, 1 - r->rank, "?", 1);
		asked = now;
	}
	return ret;
}

static int wait_for_room(struct gpu_rank *r, int ms)
{
	return poll_until(r, link_room, ms);
}

static int post(struct gpu_rank *r, const void *data, size_t bytes)
{
	const unsigned char header[TRANSPORT_HEADER_BYTES] = { 1 };
	const int ret = link_post(r->link, header, data, bytes);
	return ret ? ret : 1;
}

static void fill(unsigned char *at, uint64_t number, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = byte_of(number, i);
}

int gpu_rank_send(struct gpu_rank *r, size_t bytes, int ms)
{
	const int ret = wait_for_room(r, ms);
	if (ret <= 0)
		return ret;
	unsigned char *slot = link_slot(r->link);
	if (r->slab)
		slot = r->gpu.readable + (slot - r->gpu.address);
	fill(slot, r->link->posted, bytes);
	return post(r, NULL, bytes);
}

int gpu_rank_send_few(struct gpu_rank *r, size_t bytes, int ms)
{
	unsigned char few[LINK_INLINE_BYTES];
	const int ret = wait_for_room(r, ms);
	if (ret <= 0)
		return ret;
	fill(few, r->link->posted, bytes);
	return post(r, few, bytes);
}

int gpu_rank_receive(struct gpu_rank *r, size_t bytes, int ms)
{
	const int ret = poll_until(r, link_ready, ms);
	if (ret <= 0)
		return ret;
	const uint64_t number = link_taken(r->link);
	const struct link_message *m = link_next(r->link);
	const unsigned char *at = r->slab && bytes > LINK_INLINE_BYTES
				      ? r->gpu.readable + number % GPU_DEPTH * GPU_SLOT_BYTES
				      : m->data;
	size_t bad = 0;
	EXPECT(m->bytes == bytes);
	for (size_t i = 0; i < bytes; i++)
		bad += at[i] != byte_of(number, i);
	if (bad)
		_exit(GPU_WRONG_BYTES);
	const int released = link_release(r->link);
	return released ? released : 1;
}

static int never(struct link *l)
{
	return 0;
}

void gpu_rank_move(struct gpu_rank *r, int ms)
{
	poll_until(r, never, ms);
}

void gpu_rank_fail(struct gpu_rank *r, int code)
{
	r->t->ops->fail(r->t, code);
}

void gpu_rank_close(struct gpu_rank *r)
{
	const struct link_ops *links = r->t->ops->links;
	transport_close(r->t);
	if (r->slab && r->released == r->link->in_open + r->link->out_open)
		links->unmap(r->slab);
}

void gpu_rank_meet(struct gpu_rank *r)
{
	char byte = 0;
	EXPECT(write(r->socket, &byte, 1) == 1);
	EXPECT(recv(r->socket, &byte, 1, MSG_WAITALL) == 1);
}

/* ---- Processes ---- */

int gpu_run(void (*body)(void))
{
	int status;
	const pid_t child = fork();
	if (!child) {
		alarm(CASE_S);
		body();
		_exit(0);
	}
	return waitpid(child, &status, 0) == child ? status : -1;
}

void gpu_run_two(void (*body)(struct gpu_rank *r), int statuses[2])
{
	int sockets[2];
	pid_t children[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		abort();
	for (int rank = 0; rank < 2; rank++) {
		if ((children[rank] = fork()))
			continue;
		static struct gpu_rank r;
		r.rank = rank;
		r.size = 2;
		r.socket = sockets[rank];
		close(sockets[!rank]);
		alarm(CASE_S);
		signal(SIGPIPE, SIG_IGN);
		body(&r);
		_exit(0);
	}
	close(sockets[0]);
	close(sockets[1]);
	for (int rank = 0; rank < 2; rank++)
		waitpid(children[rank], &statuses[rank], 0);
}
