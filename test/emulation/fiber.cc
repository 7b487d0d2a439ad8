/* SPDX-License-Identifier: BSD-3-Clause */
/* Switches stacks: each thread of an emulated GPU is a fiber. */
#include "fiber.h"

#include <stdint.h>
#include <sys/mman.h>

enum { STACK_BYTES = 256 << 10, GUARD_BYTES = 4096 };

static char *make_stack()
{
	void *stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED)
		return nullptr;
	mprotect(stack, GUARD_BYTES, PROT_NONE);
	return (char *)stack;
}

#if defined(__x86_64__)

extern "C" void fiber_switch_stack(void **from, void *to);

/* The registers that a function must keep; a system call for every switch would be ten times slower. */
asm(".text\n"
    ".type fiber_switch_stack, @function\n"
    "fiber_switch_stack:\n"
    "	pushq %rbp\n"
    "	pushq %rbx\n"
    "	pushq %r12\n"
    "	pushq %r13\n"
    "	pushq %r14\n"
    "	pushq %r15\n"
    "	movq %rsp, (%rdi)\n"
    "	movq %rsi, %rsp\n"
    "	popq %r15\n"
    "	popq %r14\n"
    "	popq %r13\n"
    "	popq %r12\n"
    "	popq %rbx\n"
    "	popq %rbp\n"
    "	ret\n"
    ".size fiber_switch_stack, . - fiber_switch_stack\n");

bool fiber_make(fiber *made, void (*entry)())
{
	char *stack = make_stack();
	if (!stack)
		return false;
	uintptr_t *top = (uintptr_t *)(stack + STACK_BYTES);
	*--top = 0; /* nowhere to return to; the stack is aligned as behind a call */
	*--top = (uintptr_t)entry;
	for (int i = 0; i < 6; i++)
		*--top = 0;
	made->stack_pointer = top;
	return true;
}

void fiber_switch(fiber *from, fiber *to)
{
	fiber_switch_stack(&from->stack_pointer, to->stack_pointer);
}

#else

bool fiber_make(fiber *made, void (*entry)())
{
	char *stack = make_stack();
	if (!stack || getcontext(&made->context))
		return false;
	made->context.uc_stack.ss_sp = stack;
	made->context.uc_stack.ss_size = STACK_BYTES;
	made->context.uc_link = nullptr;
	makecontext(&made->context, entry, 0);
	return true;
}

void fiber_switch(fiber *from, fiber *to)
{
	swapcontext(&from->context, &to->context);
}

#endif
