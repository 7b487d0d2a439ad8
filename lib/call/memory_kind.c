/* SPDX-License-Identifier: BSD-3-Clause */
#include "corale.h"
#include "base/log.h"
#include "cuda/engine.h"

int corale_memory_kind(const void *pointer, corale_memory *memory)
{
	if (!memory)
		return log_error(CORALE_EINVAL, -1, "corale_memory_kind: no place for the answer");
	return engine_process.memory_kind(pointer, memory);
}
