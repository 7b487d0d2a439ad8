/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of 'devices' that a processor can't touch: a load or store at its address faults, and system calls fail. The data is in a second mapping. So a
 * test on hosts sees it when a library treats device memory as its own. Any thread. In a
 * library that is loaded with the MPI door (fake_device_door.c), it is the door's kind of device.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

/* To the door the last one is a context of its own on a device: Corale must not be given its memory. */
enum { FAKE_DEVICES = 3, FAKE_CONTEXT = FAKE_DEVICES - 1 };

/* Memory of a device, 256-byte aligned, of undefined content. NULL: the device, 1 GB, is full. free takes NULL. */
void *fake_device_alloc(int ordinal, size_t bytes);
void fake_device_free(void *memory);

/* The device whose memory p is in; -1: host memory. */
int fake_device_ordinal(const void *p);

/* Where a processor reaches the bytes at p; host memory is where it is. */
void *fake_device_reach(const void *p);

/* The descriptor of the memory of all devices, and how far in it p is. */
int fake_device_descriptor(void);
size_t fake_device_offset(const void *p);
/* A number of the block that p is in, which no later one has; 0: it is in none. */
uint64_t fake_device_block(const void *p);
/* Maps another process's, once for each descriptor: it faults as the own memory. NULL: it can't be opened. It stays. */
void *fake_device_map(long pid, int descriptor);

/* Any kinds of memory, complete at return. */
void fake_device_copy(void *to, const void *from, size_t bytes);

/* Of the door, fake_device_door.c: host memory that is pinned, in bytes; calls that pinned memory, copies that it has started and rows that they had, so far. */
size_t fake_device_pinned(void);
size_t fake_device_pins(void);
size_t fake_device_copies(void);
size_t fake_device_copied_rows(void);
/* Times that memory was exported to other processes; allocations of others that are mapped. */
size_t fake_device_exports(void);
size_t fake_device_mapped(void);

#endif
