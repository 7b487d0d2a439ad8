/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bootstrap_agree.h"

enum { LABEL_MAGIC = 0x43524c78 };

/* In front of a record and behind it: a part of one shows itself, too. */
struct label {
	uint32_t magic, number;
	int32_t rank;
	uint32_t bytes; /* of the record, modulo 2^32 */
};

static int refuse(const struct exchanges *e, int rank, const struct label *front, size_t bytes)
{
	if (front->magic != LABEL_MAGIC)
		return log_error(CORALE_EPEER, e->given.rank,
				 "the bootstrap's all-gather %u returned 0, but did not give what rank %d "
				 "has sent: is it complete, and does each rank have the same library?",
				 e->number, rank);
	return log_error(CORALE_EPEER, e->given.rank,
			 "the bootstrap's all-gather is inconsistent: expected %zu bytes of rank %d in "
			 "exchange %u; what came %s %u bytes of rank %d in exchange %u",
			 bytes, rank, e->number,
			 front->number == e->number && front->rank == rank ? "is a part of" : "are",
			 front->bytes, front->rank, front->number);
}

/* Before anything of a record is read. */
static int check(const struct exchanges *e, const unsigned char *all, size_t bytes)
{
	struct label front, behind;
	const size_t stride = bytes + 2 * sizeof front;
	for (int r = 0; r < e->given.size; r++) {
		const unsigned char *record = all + (size_t)r * stride;
		const struct label expected = { LABEL_MAGIC, e->number, r, (uint32_t)bytes };
		memcpy(&front, record, sizeof front);
		memcpy(&behind, record + sizeof front + bytes, sizeof behind);
		if (memcmp(&front, &expected, sizeof front) != 0 ||
		    memcmp(&behind, &expected, sizeof behind) != 0)
			return refuse(e, r, &front, bytes);
	}
	return 0;
}

static int gather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct exchanges *e = ctx;
	const struct label label = { LABEL_MAGIC, ++e->number, e->given.rank, (uint32_t)bytes };
	const size_t stride = bytes + 2 * sizeof label, size = (size_t)e->given.size;
	unsigned char *own = e->failed ? NULL : malloc(stride), *all = own ? calloc(size, stride) : NULL;
	if (!e->failed && !all)
		e->failed = log_error(CORALE_ENOMEM, e->given.rank, "no memory for %d ranks", e->given.size);
	if (!e->failed) {
		memcpy(own, &label, sizeof label);
		memcpy(own + sizeof label, in, bytes);
		memcpy(own + sizeof label + bytes, &label, sizeof label);
		e->failed = bootstrap_gather(&e->given, own, stride, all);
	}
	e->failed = e->failed ? e->failed : check(e, all, bytes);
	for (size_t r = 0; !e->failed && r < size; r++)
		memcpy((unsigned char *)out + r * bytes, all + r * stride + sizeof label, bytes);
	free(all);
	free(own);
	return e->failed;
}

corale_bootstrap exchanges_check(struct exchanges *e, const corale_bootstrap *given)
{
	*e = (struct exchanges){ .given = *given };
	return (corale_bootstrap){ given->rank, given->size, e, gather };
}
