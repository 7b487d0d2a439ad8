/* SPDX-License-Identifier: BSD-3-Clause */
/* An adapter's side of the process that copies a real GPU's memory for it. */
#define _GNU_SOURCE
#include "copier.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire.h"

enum {
	MOST_KNOWN = 64,
	LOOKS = 1 << 16,
	DEVICE_MEMORY = 2,
	POINTER_TYPE = 2,
	POINTER_DEVICE = 9,
	POSIX_DESCRIPTOR = 1
};

/* The driver's functions, which this program has loaded if it uses a GPU; cuda.h need not be here. */
static struct {
	int (*pointer_attribute)(void *out, int attribute, unsigned long long address);
	int (*address_range)(unsigned long long *base, size_t *bytes, unsigned long long address);
	int (*retain)(unsigned long long *handle, void *address);
	int (*release)(unsigned long long handle);
	int (*export_handle)(void *descriptor, unsigned long long handle, int type, unsigned long long flags);
} driver;

static struct {
	int socket, is_tried;
	_Atomic int is_joined;
	struct copier_board *board;
	struct copier_place known[MOST_KNOWN]; /* registrations of others that are GPU memory */
	unsigned last_known;
} copier = { .socket = -1 };

/* ---- Messages --------------------------------------------------------------------------------------------------- */

static int ask(const struct copier_message *message, int descriptor)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec bytes = { (void *)(uintptr_t)message, sizeof(*message) };
	struct msghdr m = { .msg_iov = &bytes, .msg_iovlen = 1 };
	int32_t answer;
	if (descriptor >= 0) {
		memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(descriptor));
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
	}
	if (sendmsg(copier.socket, &m, MSG_NOSIGNAL) != (ssize_t)sizeof(*message) ||
	    recv(copier.socket, &answer, sizeof(answer), MSG_WAITALL) != (ssize_t)sizeof(answer))
		return EPIPE;
	return answer;
}

static int connect_to(const char *path)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(name.sun_path))
		return ENAMETOOLONG;
	strcpy(name.sun_path, path);
	copier.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return copier.socket < 0 || connect(copier.socket, (struct sockaddr *)&name, sizeof(name)) ? errno
												   : 0;
}

static int join(void)
{
	const struct copier_message message = { .kind = COPIER_JOIN, .lid = fake_wire_lid() };
	const int descriptor = memfd_create("copier board", MFD_CLOEXEC);
	if (descriptor < 0 || ftruncate(descriptor, sizeof(*copier.board)))
		return errno;
	void *board = mmap(NULL, sizeof(*copier.board), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	const int ret = board == MAP_FAILED ? errno : ask(&message, descriptor);
	close(descriptor);
	copier.board = ret ? NULL : board;
	copier.is_joined = !ret;
	return ret;
}

int fake_copier_is_used(void)
{
	const char *path = getenv("FAKE_VERBS_COPIER");
	if (copier.is_tried || !path)
		return copier.board != NULL;
	copier.is_tried = 1;
	int ret = connect_to(path);
	if (!ret)
		ret = join();
	if (ret) {
		fprintf(stderr, "fake_verbs: FAKE_VERBS_COPIER=%s: no process copies there: %s\n", path,
			strerror(ret));
		exit(2);
	}
	return 1;
}

/* ---- Registrations ---------------------------------------------------------------------------------------------- */

static int load(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);
	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

static int load_driver(void)
{
	void *library = driver.release ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	return driver.release ||
	       (library && load(library, "cuPointerGetAttribute", &driver.pointer_attribute) &&
		load(library, "cuMemGetAddressRange_v2", &driver.address_range) &&
		load(library, "cuMemRetainAllocationHandle", &driver.retain) &&
		load(library, "cuMemExportToShareableHandle", &driver.export_handle) &&
		load(library, "cuMemRelease", &driver.release));
}

int fake_copier_has(const void *address)
{
	unsigned type = 0;
	return load_driver() && !driver.pointer_attribute(&type, POINTER_TYPE, (uintptr_t)address) &&
	       type == DEVICE_MEMORY;
}

/* A descriptor of the allocation that has this address, or -1: it can't be exported. */
static int export_allocation(const void *address)
{
	unsigned long long handle;
	int descriptor = -1;
	if (driver.retain(&handle, (void *)(uintptr_t)address))
		return -1;
	if (driver.export_handle(&descriptor, handle, POSIX_DESCRIPTOR, 0))
		descriptor = -1;
	driver.release(handle);
	return descriptor;
}

int fake_copier_register(uint32_t key, uint64_t start, const void *memory, size_t bytes)
{
	struct copier_message message = {
		.kind = COPIER_REGISTER, .lid = fake_wire_lid(), .key = key, .address = start, .bytes = bytes
	};
	unsigned long long base;
	size_t allocated;
	if (driver.address_range(&base, &allocated, (uintptr_t)memory) ||
	    driver.pointer_attribute(&message.device, POINTER_DEVICE, (uintptr_t)memory))
		return EFAULT;
	message.allocated = allocated;
	message.offset = (uintptr_t)memory - base;
	const int descriptor = export_allocation((const void *)(uintptr_t)base);
	if (descriptor < 0)
		return EFAULT;
	const int ret = ask(&message, descriptor);
	close(descriptor);
	return ret;
}

void fake_copier_forget(uint32_t key)
{
	const struct copier_message message = { .kind = COPIER_FORGET, .lid = fake_wire_lid(), .key = key };
	ask(&message, -1);
}

/* ---- Copies ----------------------------------------------------------------------------------------------------- */

int fake_copier_is_joined(void)
{
	return copier.is_joined;
}

uint64_t fake_copier_done(void)
{
	return copier.is_joined ? copier.board->done : 0;
}

int fake_copier_is_done(uint64_t number)
{
	return copier.board->done >= number;
}

static void check_process(void)
{
	char byte;
	if (recv(copier.socket, &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0)
		return;
	fprintf(stderr, "fake_verbs: the process that copies GPU memory has ended\n");
	abort();
}

void fake_copier_wait(uint64_t number)
{
	for (unsigned turn = 1; !fake_copier_is_done(number); turn++) {
		sched_yield();
		if (turn % LOOKS == 0)
			check_process();
	}
}

static uint64_t post(struct copier_place from, struct copier_place to, size_t bytes)
{
	struct copier_board *b = copier.board;
	const uint64_t number = b->posted + 1;
	if (number > COPIER_POSTS)
		fake_copier_wait(number - COPIER_POSTS);
	b->copies[number % COPIER_POSTS] = (struct copier_copy){ .from = from, .to = to, .bytes = bytes };
	b->posted = number;
	return number;
}

static struct copier_place place_of(uint32_t key, uint64_t address)
{
	return (struct copier_place){ fake_wire_lid(), key, address };
}

uint64_t fake_copier_begin(uint32_t key, uint64_t address, struct copier_place to, size_t bytes)
{
	return post(place_of(key, address), to, bytes);
}

int fake_copier_knows(uint32_t lid, uint32_t key)
{
	const struct copier_place asked = { lid, key, 0 };
	for (int i = 0; i < MOST_KNOWN; i++)
		if (copier.known[i].lid == lid && copier.known[i].key == key)
			return 1;
	const uint64_t number = post(place_of(copier_staged, 0), asked, 0);
	fake_copier_wait(number);
	if (copier.board->copies[number % COPIER_POSTS].is_unknown)
		return 0;
	copier.known[copier.last_known++ % MOST_KNOWN] = asked;
	return 1;
}

static size_t part_of(size_t bytes)
{
	return bytes < COPIER_STAGED_BYTES ? bytes : COPIER_STAGED_BYTES;
}

void fake_copier_fetch(uint32_t key, uint64_t address, void *to, size_t bytes)
{
	for (size_t at = 0, part; at < bytes; at += part) {
		part = part_of(bytes - at);
		fake_copier_wait(post(place_of(key, address + at), place_of(copier_staged, 0), part));
		memcpy((unsigned char *)to + at, copier.board->staged, part);
	}
}

void fake_copier_store(uint32_t key, uint64_t address, const void *from, size_t bytes)
{
	for (size_t at = 0, part; at < bytes; at += part) {
		part = part_of(bytes - at);
		memcpy(copier.board->staged, (const unsigned char *)from + at, part);
		fake_copier_wait(post(place_of(copier_staged, 0), place_of(key, address + at), part));
	}
}
