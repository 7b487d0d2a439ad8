/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot.h"

int boot_allgather(struct boot *b, const void *in, size_t bytes, void *out)
{
	int ret = b->ops->start(b, in, bytes, out);
	while (ret == 0)
		ret = b->ops->poll(b); /* sleeps itself */
	return ret > 0 ? 0 : ret;
}
