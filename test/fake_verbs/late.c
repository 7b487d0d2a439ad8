/* SPDX-License-Identifier: BSD-3-Clause */
/* Holds bytes back after their write has completed, as PCIe may, until something orders them. */
#include "late.h"

#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "list.h"
#include "memory.h"

enum { RELAXED_MS = 5 };

struct late {
	struct fake_node node;
	uint32_t key;
	int is_gpu;
	uint64_t address, due;
	size_t bytes;
	unsigned char *data, *payload; /* the bytes that are late; the memory that holds them */
};

static struct fake_list writes;

static void store(const struct late *l)
{
	if (fake_memory_at(l->key, l->address, l->bytes, 0))
		fake_memory_store(l->key, l->address, l->data, l->bytes);
}

/* Stores, or drops, those that are meant: `is_meant` is asked with `of`. */
static void release(int (*is_meant)(const struct late *, const void *of), const void *of, int stores)
{
	struct fake_list kept = { NULL, NULL };
	for (struct late *l; (l = fake_take(&writes));) {
		if (!is_meant(l, of)) {
			fake_append(&kept, l);
			continue;
		}
		if (stores)
			store(l);
		free(l->payload);
		free(l);
	}
	writes = kept;
}

static int is_gpu_of(const struct late *l, const void *key)
{
	return l->is_gpu && l->key == *(const uint32_t *)key;
}

static int is_relaxed_one(const struct late *l, const void *of)
{
	return !l->is_gpu;
}

static int is_overdue(const struct late *l, const void *now)
{
	return !l->is_gpu && *(const uint64_t *)now >= l->due;
}

static int overlaps(const struct late *l, const void *of)
{
	const struct fake_frame *frame = of;
	return l->key == frame->key && l->address < frame->address + frame->bytes &&
	       frame->address < l->address + l->bytes;
}

static int is_relaxed(uint32_t key)
{
	return fake_faults.reorder_relaxed && fake_memory_is_relaxed(key);
}

int fake_late_takes(const struct fake_frame *frame)
{
	if (frame->kind != FAKE_WRITE || !frame->bytes)
		return 0;
	if (fake_memory_is_gpu(frame->key))
		return fake_faults.late || fake_memory_is_copied(frame->key);
	return is_relaxed(frame->key);
}

static int has_relaxed(void)
{
	struct fake_node *n = writes.first;
	while (n && ((struct late *)n)->is_gpu)
		n = n->next;
	return n != NULL;
}

/* Of GPU memory the end, of the rest all, unless a write before it is late already: then this one passes it. */
static size_t late_bytes(const struct fake_frame *frame, int is_gpu)
{
	if (is_gpu && !fake_faults.late)
		return 0;
	if (is_gpu)
		return frame->bytes < LATE_BYTES ? frame->bytes : LATE_BYTES;
	return has_relaxed() ? 0 : frame->bytes;
}

int fake_late_write(const struct fake_frame *frame, unsigned char *data)
{
	const void *to = fake_memory_at(frame->key, frame->address, frame->bytes, IBV_ACCESS_REMOTE_WRITE);
	const int is_gpu = fake_memory_is_gpu(frame->key);
	struct late *l = to ? calloc(1, sizeof(*l)) : NULL;
	if (!l) {
		free(data);
		return 0;
	}
	release(overlaps, frame, 1); /* of writes to the same place the order is kept */
	const size_t late = late_bytes(frame, is_gpu), in_time = frame->bytes - late;
	if (in_time)
		fake_memory_store(frame->key, frame->address, data, in_time);
	*l = (struct late){ .key = frame->key,
			    .is_gpu = is_gpu,
			    .address = frame->address + in_time,
			    .due = fake_now_ms() + RELAXED_MS,
			    .bytes = late,
			    .data = data + in_time,
			    .payload = data };
	if (late) {
		fake_append(&writes, l);
	} else {
		free(data);
		free(l);
	}
	return 1;
}

void fake_late_read(uint32_t key)
{
	if (!is_relaxed(key))
		release(is_gpu_of, &key, 1);
}

void fake_late_receive(void)
{
	release(is_relaxed_one, NULL, 1);
}

void fake_late_tick(void)
{
	const uint64_t now = fake_now_ms();
	release(is_overdue, &now, 1);
}

/* What nobody has read back by now is not there. */
void fake_late_forget(uint32_t key)
{
	release(is_relaxed_one, NULL, 1);
	release(is_gpu_of, &key, 0);
}
