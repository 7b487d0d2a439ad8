/* SPDX-License-Identifier: BSD-3-Clause */
/* What the MPI door takes for the program's own memory without asking a driver (pmpi_glue/memory_own.c): never what a mapping may hold, from whichever stack it is asked. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "memory.h"

enum { BYTES = 1 << 20 };

static int in_data = 1, in_bss;

static char *map(void)
{
	char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

UNIT_TEST(test_own)
{
	int on_stack;
	char *in_heap = sbrk(BYTES);
	assert_true(pmpi_is_own(&on_stack));
	assert_true(pmpi_is_own(&in_data));
	assert_true(pmpi_is_own(&in_bss));
	assert_ptr_not_equal(in_heap, (void *)-1);
	assert_true(pmpi_is_own(in_heap));
	assert_true(pmpi_is_own(in_heap + BYTES - 1));
	assert_false(pmpi_is_own(in_heap + BYTES));
}

UNIT_TEST(test_mapped)
{
	char *memory = map();
	int on_stack;
	assert_false(pmpi_is_own(memory));
	assert_false(pmpi_is_own(memory + BYTES - 1));
	assert_false(pmpi_is_own(NULL));
	assert_false(pmpi_is_own((void *)0x302000000)); /* where CUDA places memory of pools */
	assert_false(pmpi_is_own((void *)((uintptr_t)&on_stack - BYTES))); /* below all that is in use */
	munmap(memory, BYTES);
}

/* Of another thread: its own stack alone, and what lies between that and this one's is none of them. */
static void *ask(void *others)
{
	char *memory = map();
	int on_stack;
	void *own = pmpi_is_own(&on_stack) && !pmpi_is_own(others) && !pmpi_is_own(memory) ? others : NULL;
	munmap(memory, BYTES);
	return own;
}

UNIT_TEST(test_thread)
{
	int on_stack;
	pthread_t thread;
	void *is_right;
	assert_int_equal(pthread_create(&thread, NULL, ask, &on_stack), 0);
	pthread_join(thread, &is_right);
	assert_ptr_equal(is_right, &on_stack);
}

/* On a stack that the program has made, in a mapping: mappings lie on all sides of it. */
static ucontext_t before, within;
static struct {
	char *below, *stack, *above;
	int own; /* of these */
} fiber;

static void run_fiber(void)
{
	int on_stack;
	fiber.own = pmpi_is_own(fiber.below) + pmpi_is_own(fiber.above) + pmpi_is_own(&on_stack);
}

UNIT_TEST(test_fiber)
{
	char *memory = map();
	fiber.below = memory;
	fiber.stack = memory + BYTES / 4;
	fiber.above = memory + BYTES - 1;
	assert_int_equal(getcontext(&within), 0);
	within.uc_stack.ss_sp = fiber.stack;
	within.uc_stack.ss_size = BYTES / 2;
	within.uc_link = &before;
	makecontext(&within, run_fiber, 0);
	assert_int_equal(swapcontext(&before, &within), 0);
	assert_int_equal(fiber.own, 0);
	munmap(memory, BYTES);
}
