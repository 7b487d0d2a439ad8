/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies for adapters. One thread looks at all boards in turn. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake_copier.h"

enum { MOST_DEVICES = 16, LOOKS = 256 }; /* at boards, before sockets have their turn */

struct registration {
	struct registration *next;
	const struct adapter
	    *owner; /* a lid may be another adapter's before its last owner is known to be gone */
	uint32_t lid, key;
	uint64_t address, offset, bytes;
	struct copier_memory memory;
};

struct adapter {
	struct adapter *next;
	int socket;
	uint32_t lid;
	struct copier_board *board;
	uint64_t begun;
	double free_at; /* when it has sent all that was begun, at its rate */
	double due[COPIER_POSTS];
	cudaEvent_t events[MOST_DEVICES][COPIER_POSTS], ended[COPIER_POSTS];
	cudaStream_t streams[MOST_DEVICES];
};

static const uint32_t any_key = UINT32_MAX;
static struct registration *registrations;
static struct adapter *adapters;

/* ---- Registrations ---------------------------------------------------------------------------------------------- */

/* The last one that was made. */
static const struct registration *find(uint32_t lid, uint32_t key)
{
	const struct registration *r = registrations;
	while (r && (r->lid != lid || r->key != key))
		r = r->next;
	return r;
}

static void forget(struct registration **at)
{
	struct registration *r = *at;
	*at = r->next;
	copier_check(cudaSetDevice(r->memory.device), "choosing a GPU");
	copier_check(cudaDeviceSynchronize(), "waiting for copies"); /* of other adapters from and into it */
	copier_memory_unmap(&r->memory);
	free(r);
}

static void forget_all(const struct adapter *owner, uint32_t key)
{
	for (struct registration **r = &registrations; *r;)
		if ((*r)->owner == owner && (key == any_key || (*r)->key == key))
			forget(r);
		else
			r = &(*r)->next;
}

static int add(const struct adapter *owner, const struct copier_message *m, int descriptor)
{
	struct registration *r = calloc(1, sizeof(*r));
	if (!r || m->device < 0 || m->device >= MOST_DEVICES || cudaSetDevice(m->device) != cudaSuccess ||
	    cudaFree(NULL) != cudaSuccess ||
	    !copier_memory_import(descriptor, m->device, m->allocated, &r->memory)) {
		free(r);
		return EFAULT;
	}
	r->owner = owner;
	r->lid = m->lid;
	r->key = m->key;
	r->address = m->address;
	r->offset = m->offset;
	r->bytes = m->bytes;
	r->next = registrations;
	registrations = r;
	return 0;
}

/* ---- Copies ----------------------------------------------------------------------------------------------------- */

/* Under MPS the memory of a process goes with it, also where others have mapped it. */
static int is_gone(const struct adapter *a)
{
	char byte;
	return recv(a->socket, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

/* Where the bytes of a place are, or NULL. *device is set where they are a GPU's. */
static void *bytes_at(const struct adapter *a, const struct copier_place *p, uint64_t bytes, int *device)
{
	if (p->key == copier_staged)
		return bytes <= sizeof(a->board->staged) ? a->board->staged : NULL;
	const struct registration *r = find(p->lid, p->key);
	if (!r || is_gone(r->owner) ||
	    (bytes &&
	     (p->address < r->address || bytes > r->bytes || p->address - r->address > r->bytes - bytes)))
		return NULL;
	*device = r->memory.device;
	return (void *)(r->memory.at + r->offset + (bytes ? p->address - r->address : 0));
}

static cudaStream_t stream_of(struct adapter *a, int device)
{
	copier_check(cudaSetDevice(device), "choosing a GPU");
	if (!a->streams[device])
		copier_check(cudaStreamCreateWithFlags(&a->streams[device], cudaStreamNonBlocking),
			     "making a stream");
	return a->streams[device];
}

static cudaEvent_t event_of(struct adapter *a, uint64_t number, int device)
{
	cudaEvent_t *event = &a->events[device][number % COPIER_POSTS];
	if (!*event)
		copier_check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
	return *event;
}

static void begin(struct adapter *a, uint64_t number, double rate)
{
	struct copier_copy *c = &a->board->copies[number % COPIER_POSTS];
	int device = 0;
	void *to = bytes_at(a, &c->to, c->bytes, &device), *from = bytes_at(a, &c->from, c->bytes, &device);
	const double now = clock_s();
	const cudaStream_t stream = stream_of(a, device);
	c->is_unknown = !from || !to;
	if (!c->is_unknown && c->bytes)
		copier_check(cudaMemcpyAsync(to, from, c->bytes, cudaMemcpyDefault, stream), "copying");
	a->ended[number % COPIER_POSTS] = event_of(a, number, device);
	copier_check(cudaEventRecord(a->ended[number % COPIER_POSTS], stream), "recording an event");
	a->free_at = a->free_at > now ? a->free_at : now;
	if (rate > 0)
		a->free_at += (double)c->bytes / (rate * 1e9);
	a->due[number % COPIER_POSTS] = a->free_at;
}

static int has_ended(const struct adapter *a, uint64_t number)
{
	if (clock_s() < a->due[number % COPIER_POSTS])
		return 0;
	const cudaError_t state = cudaEventQuery(a->ended[number % COPIER_POSTS]);
	if (state != cudaErrorNotReady)
		copier_check(state, "waiting for a copy");
	return state == cudaSuccess;
}

static void look(struct adapter *a, double rate)
{
	while (a->begun < a->board->posted)
		begin(a, ++a->begun, rate);
	while (a->board->done < a->begun && has_ended(a, a->board->done + 1))
		a->board->done++;
}

/* ---- Adapters --------------------------------------------------------------------------------------------------- */

static int join(struct adapter *a, const struct copier_message *m, int descriptor)
{
	void *board = mmap(NULL, sizeof(*a->board), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	if (board == MAP_FAILED)
		return errno;
	a->board = board;
	a->lid = m->lid;
	cudaHostRegister(a->board->staged, sizeof(a->board->staged), cudaHostRegisterPortable);
	return 0;
}

static void leave(struct adapter *a)
{
	struct adapter **at = &adapters;
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	for (int i = 0; i < MOST_DEVICES; i++)
		if (a->streams[i]) {
			cudaStreamSynchronize(a->streams[i]);
			cudaStreamDestroy(a->streams[i]);
		}
	for (int i = 0; i < MOST_DEVICES * COPIER_POSTS; i++)
		if (a->events[i / COPIER_POSTS][i % COPIER_POSTS])
			cudaEventDestroy(a->events[i / COPIER_POSTS][i % COPIER_POSTS]);
	forget_all(a, any_key);
	if (a->board) {
		cudaHostUnregister(a->board->staged);
		munmap(a->board, sizeof(*a->board));
	}
	close(a->socket);
	free(a);
}

static int32_t answer(struct adapter *a, const struct copier_message *m, int descriptor)
{
	switch (m->kind) {
	case COPIER_JOIN:
		return join(a, m, descriptor);
	case COPIER_REGISTER:
		return add(a, m, descriptor);
	default:
		forget_all(a, m->key);
		return 0;
	}
}

static int descriptor_of(struct msghdr *message)
{
	int descriptor = -1;
	const struct cmsghdr *control = CMSG_FIRSTHDR(message);
	if (control && control->cmsg_type == SCM_RIGHTS)
		memcpy(&descriptor, CMSG_DATA(control), sizeof(descriptor));
	return descriptor;
}

/* 0: it is gone. */
static int listen_to(struct adapter *a)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct copier_message message;
	struct iovec bytes = { &message, sizeof(message) };
	struct msghdr m = {
		.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	const ssize_t got = recvmsg(a->socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0 && errno == EAGAIN)
		return 1;
	if (got != (ssize_t)sizeof(message))
		return 0;
	const int descriptor = descriptor_of(&m);
	const int32_t ret = answer(a, &message, descriptor);
	if (descriptor >= 0)
		close(descriptor);
	return send(a->socket, &ret, sizeof(ret), MSG_NOSIGNAL) == (ssize_t)sizeof(ret);
}

static void accept_adapter(int listener)
{
	const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct adapter *a = fd < 0 ? NULL : calloc(1, sizeof(*a));
	if (a) {
		a->socket = fd;
		a->next = adapters;
		adapters = a;
	} else if (fd >= 0) {
		close(fd);
	}
}

static void look_at_sockets(int listener)
{
	accept_adapter(listener);
	for (struct adapter *a = adapters, *next; a; a = next) {
		next = a->next;
		if (!listen_to(a))
			leave(a);
	}
}

static int listen_at(const char *path)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(path);
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof(name)) || listen(fd, MOST_DEVICES)) {
		fprintf(stderr, "fake_copier: %s: %s\n", path, strerror(errno));
		return -1;
	}
	return fd;
}

int copier_serve(const struct copier_options *options)
{
	copier_check(cudaFree(NULL), "using a GPU");
	const int listener = listen_at(options->path);
	if (listener < 0)
		return 1;
	for (;;) {
		look_at_sockets(listener);
		for (int i = 0; i < LOOKS; i++)
			for (struct adapter *a = adapters; a; a = a->next)
				if (a->board)
					look(a, options->rate);
		sched_yield();
	}
}
