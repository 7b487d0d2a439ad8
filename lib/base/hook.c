/* SPDX-License-Identifier: BSD-3-Clause */
#include "wait.h"

#include <stdatomic.h>
#include <stddef.h>

#include "corale.h"
#include "process.h"

typedef void progress_function(void *ctx);

static progress_function *_Atomic function;
static void *_Atomic context;

static _Thread_local int is_inside;

int corale_set_progress(void (*fn)(void *ctx), void *ctx)
{
	if (process_refuses("corale_set_progress"))
		return CORALE_ENOTSUP;
	atomic_store(&function, NULL);
	atomic_store(&context, ctx);
	atomic_store(&function, fn);
	return 0;
}

int hook_is_set(void)
{
	return atomic_load_explicit(&function, memory_order_relaxed) && !is_inside &&
	       !process_is_library_thread();
}

void hook_call(void)
{
	progress_function *fn = atomic_load_explicit(&function, memory_order_acquire);
	if (!fn)
		return;
	is_inside = 1;
	fn(atomic_load_explicit(&context, memory_order_relaxed));
	is_inside = 0;
}
