/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Through a slot, or by reference into the sender's memory: which way a message to another process of the node takes is decided by its sender, from what the
 * last messages of that size took each way. A slot costs two copies by the cores, a reference one copy by the kernel, which walks pages; which of them is
 * faster changes by a factor of three with where the cores of two ranks lie, on virtual machines from one minute to the next. It is no part of the plan.
 */
#ifndef HOST_PATH_H
#define HOST_PATH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HOST_PATH_LEAST = 4096, /* bytes; smaller messages go through slots */
	HOST_PATH_LONG = 64 << 10, /* from here on a look at the clock costs nothing beside the message */
	HOST_PATH_CLASSES = 10
};

enum host_way { HOST_BY_SLOT, HOST_BY_REFERENCE, HOST_WAYS };

/* Messages of a size class on one queue, as its sender knows them. */
struct host_path {
	float write_ns; /* into a slot; 0: not measured yet */
	float read_ns[HOST_WAYS]; /* by the slowest reader, by way; 0: not measured yet */
	uint32_t sent[HOST_WAYS];
	uint16_t between; /* messages between the last two tries of the slower way */
	uint16_t until_try; /* messages until it is tried again */
	uint8_t tries; /* messages that are left of this try */
	uint8_t way; /* the faster one */
};

/* Message `number` of a queue is timed by both ends, which agree: all long ones, of short ones every eighth. */
static inline int host_path_is_timed(size_t bytes, uint64_t number)
{
	enum { EVERY = 8 };
	return bytes >= HOST_PATH_LEAST && (bytes >= HOST_PATH_LONG || number % EVERY == 0);
}

/* What a call does with the cores beside one message. */
struct host_flow {
	int one_way; /* ranks either send or receive: the copy into the next slot overlaps the one out of the last slot */
	int writes; /* messages that the sender copies while a reader copies one */
};

/* The sender: the way of its next message. paths: of its queue; number: of the message. */
enum host_way host_path_choose(struct host_path *paths, size_t bytes, uint64_t number, struct host_flow flow);
/* Follows the median of samples, a sixteenth up or down a sample; the first one is taken as it is, and one far below halves the distance. */
void host_path_follow(float *value, float sample);
/* The sender has written a message into a slot. */
void host_path_wrote(struct host_path *paths, size_t bytes, int64_t ns);
/* The sender learns what its readers have published. consumed: their counters; *seen: the first one's last word. */
void host_path_learn(struct host_path *paths, _Atomic uint64_t *const *consumed, int n, uint64_t *seen);
/* The reader, once it has read message `number`. consumed: its counter. */
void host_path_publish(_Atomic uint64_t *consumed, size_t bytes, enum host_way way, uint64_t number,
		       int64_t ns);
/* Bytes of the class with that index, at least. */
size_t host_path_bytes(int class);
/* us of both copies of a message, or of the one by reference, as measured; 0: not measured. */
double host_path_us(const struct host_path *path, enum host_way way);

#endif
