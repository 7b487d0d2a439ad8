/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"

int bootstrap_gather(const corale_bootstrap *b, const void *in, size_t bytes, void *out)
{
	const int ret = b->allgather(b->ctx, in, bytes, out);
	if (!ret || (ret < CORALE_EINVAL && ret >= CORALE_EINTERNAL))
		return ret;
	return log_error(CORALE_EPEER, b->rank, "the bootstrap's all-gather failed: it returned %d", ret);
}

/* A rank's outcome. If some rank has failed, ranks also exchange the cause. */
struct outcome {
	int64_t value;
	int32_t status;
};

struct failure {
	char host[64], text[320];
};

/* The rank whose failure the others report; -1: none has failed. A rank that only lost a peer is seldom the cause. */
static int find_cause(const struct outcome *all, int size)
{
	int first = -1;
	for (int r = 0; r < size; r++) {
		if (all[r].status && all[r].status != CORALE_EPEER)
			return r;
		if (all[r].status && first < 0)
			first = r;
	}
	return first;
}

/* A rank that failed by itself has logged why; all others log the failure of rank `cause`. */
static int report_cause(int rank, int status, int cause, int code, struct failure *failure, const char *what)
{
	if (status && (status != CORALE_EPEER || code == CORALE_EPEER))
		return status;
	failure->host[sizeof failure->host - 1] = 0;
	failure->text[sizeof failure->text - 1] = 0;
	return log_error(code_of_peer(code), rank, "rank %d could not %s on host %s: %s", cause, what,
			 failure->host, failure->text[0] ? failure->text : corale_strerror(code));
}

int bootstrap_agree(const corale_bootstrap *b, int status, const char *what, int64_t *most)
{
	const struct outcome mine = { most ? *most : 0, status };
	struct outcome *all = calloc((size_t)b->size, sizeof *all);
	struct failure own = { 0 }, *failures = calloc((size_t)b->size, sizeof *failures);
	int cause = -1, failed = all && failures
				     ? bootstrap_gather(b, &mine, sizeof mine, all)
				     : log_error(CORALE_ENOMEM, b->rank, "no memory for %d ranks", b->size);
	if (!failed)
		cause = find_cause(all, b->size);
	if (cause >= 0) { /* on all ranks, as all have the same outcomes */
		gethostname(own.host, sizeof own.host - 1);
		snprintf(own.text, sizeof own.text, "%s", status ? log_last_error() : "");
		failed = bootstrap_gather(b, &own, sizeof own, failures);
	}
	for (int r = 0; !failed && most && r < b->size; r++)
		*most = all[r].value > *most ? all[r].value : *most;
	if (failed)
		status = failed;
	else if (cause >= 0)
		status = report_cause(b->rank, status, cause, all[cause].status, &failures[cause], what);
	free(failures);
	free(all);
	return status;
}

/* What a rank gives travels behind its status. */
enum { STATUS_BYTES = 8 };

static void unpack(const unsigned char *packed, size_t stride, int ranks, size_t bytes, unsigned char *out)
{
	for (size_t r = 0; r < (size_t)ranks; r++)
		memmove(out + r * bytes, packed + r * stride + STATUS_BYTES, bytes);
}

void *bootstrap_agree_gather(const corale_bootstrap *b, int *status, const char *what, const void *mine,
			     size_t bytes)
{
	const size_t stride = STATUS_BYTES + bytes;
	unsigned char *own = calloc(1, stride), *all = calloc((size_t)b->size, stride);
	int32_t code = *status, any = 0;
	int ret = own && all ? 0 : log_error(CORALE_ENOMEM, b->rank, "no memory for %d ranks", b->size);
	if (!ret) {
		memcpy(own, &code, sizeof code);
		if (!code) /* else there may be nothing to give */
			memcpy(own + STATUS_BYTES, mine, bytes);
		ret = bootstrap_gather(b, own, stride, all);
	}
	for (int r = 0; !ret && r < b->size; r++) {
		memcpy(&code, all + (size_t)r * stride, sizeof code);
		any |= code;
	}
	if (any) /* on all ranks */
		ret = bootstrap_agree(b, *status, what, NULL);
	free(own);
	*status = ret;
	if (!ret) {
		unpack(all, stride, b->size, bytes, all);
		return all;
	}
	free(all);
	return NULL;
}

/* ---- Exchanges that are checked */

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
