/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake device of tests: a processor and system calls can't reach its memory, copies can, and what is freed is used again. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "fake_device.h"

static int status_of(void (*touch)(volatile char *), char *at)
{
	int status;
	const pid_t child = fork();
	if (!child) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		signal(SIGSEGV, SIG_DFL);
		touch(at);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void load(volatile char *at)
{
	(void)*at;
}

static void store(volatile char *at)
{
	*at = 1;
}

UNIT_TEST(a_processor_that_touches_it_faults)
{
	char *memory = fake_device_alloc(0, 100), *host = malloc(100);
	assert_true(WIFSIGNALED(status_of(load, memory)) && WTERMSIG(status_of(load, memory)) == SIGSEGV);
	assert_true(WIFSIGNALED(status_of(store, memory + 99)));
	assert_int_equal(status_of(store, host), 0);
	fake_device_free(memory);
	free(host);
}

/* As an MPI does that reads a peer's memory. */
UNIT_TEST(system_calls_fail)
{
	char *memory = fake_device_alloc(0, 100), host[100];
	struct iovec local = { host, sizeof(host) }, remote = { memory, 100 };
	assert_int_equal(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), -1);
	assert_int_equal(errno, EFAULT);
	fake_device_free(memory);
}

UNIT_TEST(copies_reach_it)
{
	char *memory = fake_device_alloc(1, 1000), *other = fake_device_alloc(0, 1000), in[1000], out[1000];
	for (int i = 0; i < 1000; i++)
		in[i] = (char)(i * 7);
	fake_device_copy(memory, in, 1000);
	fake_device_copy(other, memory, 1000);
	fake_device_copy(out, other, 1000);
	assert_memory_equal(in, out, 1000);
	assert_int_equal(fake_device_ordinal(memory + 999), 1);
	assert_int_equal(fake_device_ordinal(other), 0);
	assert_int_equal(fake_device_ordinal(in), -1);
	assert_ptr_equal(fake_device_reach(in), in);
	fake_device_free(memory);
	fake_device_free(other);
}

UNIT_TEST(freed_memory_is_used_again)
{
	const size_t much = (size_t)700 << 20;
	for (int i = 0; i < 4; i++) {
		char *first = fake_device_alloc(0, 10), *memory = fake_device_alloc(0, much);
		assert_non_null(memory);
		assert_null(fake_device_alloc(0, much));
		fake_device_free(first);
		fake_device_free(memory);
	}
	fake_device_free(NULL);
}
