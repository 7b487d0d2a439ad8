/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack and the place where its owner stopped. */
#ifndef FIBER_H
#define FIBER_H

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct fiber {
#if defined(__x86_64__)
	void *stack_pointer;
#else
	ucontext_t context;
#endif
};

/* Makes a fiber that begins with entry(), which must not return. NULL memory: none was left. */
bool fiber_make(fiber *made, void (*entry)());
/* Stops as from, goes on as to. */
void fiber_switch(fiber *from, fiber *to);

#endif
