/* SPDX-License-Identifier: BSD-3-Clause */
#include "bootstrap_agree.h"

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

int agree(const corale_bootstrap *b, int status, const char *what, int64_t *most)
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

void *agree_gather(const corale_bootstrap *b, int *status, const char *what, const void *mine, size_t bytes)
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
		ret = agree(b, *status, what, NULL);
	free(own);
	*status = ret;
	if (!ret) {
		unpack(all, stride, b->size, bytes, all);
		return all;
	}
	free(all);
	return NULL;
}
