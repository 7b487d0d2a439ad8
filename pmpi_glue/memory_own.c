/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is the host's for sure, so that no driver is asked, which takes 95 ns for an address that it does not know (H200): the program's image, its heap, and the stack that the
 * caller runs on.
 */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "memory.h"

struct range {
	uintptr_t begin, end;
};

static struct range image;
static uintptr_t heap; /* where it begins; 0: not known */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct range stack; /* of the thread; end 0: not asked for yet */

/* The first object is the program. */
static int find_image(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	(void)bytes, (void)unused;
	image.begin = UINTPTR_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		const uintptr_t at = info->dlpi_addr + part->p_vaddr;
		if (part->p_type != PT_LOAD)
			continue;
		image.begin = at < image.begin ? at : image.begin;
		image.end = at + part->p_memsz > image.end ? at + part->p_memsz : image.end;
	}
	return 1;
}

/* Field 47 of the process's state, the 45th behind its name. */
static void find_heap(void)
{
	enum { AFTER_NAME = 45 };
	char line[2048] = "";
	FILE *file = descriptor_read("/proc/self/stat");
	const char *at = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
	for (int i = 0; at && i < AFTER_NAME; i++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, "%zu", &heap) != 1)
		heap = 0;
	if (file)
		fclose(file);
}

static void find_both(void)
{
	dl_iterate_phdr(find_image, NULL);
	find_heap();
}

static int is_in(uintptr_t at, uintptr_t begin, uintptr_t end)
{
	return at - begin < end - begin;
}

static void find_stack(void)
{
	pthread_attr_t attributes;
	void *lowest = NULL;
	size_t bytes = 1;
	if (!pthread_getattr_np(pthread_self(), &attributes)) {
		pthread_attr_getstack(&attributes, &lowest, &bytes);
		pthread_attr_destroy(&attributes);
	}
	stack = (struct range){ (uintptr_t)lowest, (uintptr_t)lowest + bytes };
}

/* Only what lies above this call on the thread's stack; a program may run it on another one. */
static int is_on_stack(uintptr_t at)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	if (!stack.end)
		find_stack();
	return is_in(here, stack.begin, stack.end) && is_in(at, here, stack.end);
}

int pmpi_is_own(const void *p)
{
	const uintptr_t at = (uintptr_t)p;
	pthread_once(&once, find_both);
	return is_on_stack(at) || is_in(at, image.begin, image.end) ||
	       (heap && is_in(at, heap, (uintptr_t)sbrk(0)));
}
