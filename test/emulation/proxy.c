/* lib/net/proxy.c as one of the fibers: others go on where it tells them something. */
#define _GNU_SOURCE /* as it has, before the first header */
#include "gpu.h"

#define __atomic_store_n(word, value, order)                                                                 \
	(gpu_maybe(2), __atomic_store_n(word, value, order), gpu_maybe(2))

#include "../../lib/net/proxy.c"
