/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of runs, and runs found by packing. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "types.h"

static int repeats(const struct pmpi_run *run, ptrdiff_t at, size_t bytes)
{
	if (run->bytes != bytes)
		return 0;
	return run->count == 1 ? at > run->at + (ptrdiff_t)bytes
			       : at == run->at + (ptrdiff_t)(run->count * run->stride);
}

static void flush(struct pmpi_runs *list)
{
	struct pmpi_run *last = list->n ? &list->runs[list->n - 1] : NULL;
	if (!list->bytes || list->failed)
		return;
	if (last && repeats(last, list->at, list->bytes)) {
		last->stride = last->count == 1 ? (size_t)(list->at - last->at) : last->stride;
		last->count++;
		return;
	}
	if (list->n == list->room) {
		list->room = list->room ? 2 * list->room : 4;
		last = realloc(list->runs, list->room * sizeof(*last));
		list->failed = !last;
		if (!last)
			return;
		list->runs = last;
	}
	list->runs[list->n++] = (struct pmpi_run){ list->at, list->bytes, 1, list->bytes };
}

void pmpi_runs_add(struct pmpi_runs *list, ptrdiff_t at, size_t bytes)
{
	if (!bytes)
		return;
	if (list->bytes && at == list->at + (ptrdiff_t)list->bytes) {
		list->bytes += bytes;
		return;
	}
	flush(list);
	list->at = at;
	list->bytes = bytes;
}

/* The pieces between the last run's and the last one become the run's, if the one behind the run's continues it. */
static int skip(struct pmpi_runs *list, size_t bytes, size_t pieces, ptrdiff_t stride)
{
	struct pmpi_run *last = list->n ? &list->runs[list->n - 1] : NULL;
	if (!last || list->failed || list->bytes != bytes || last->bytes != bytes ||
	    list->at != last->at + (ptrdiff_t)((last->count - 1) * last->stride) + stride ||
	    (last->count > 1 && (ptrdiff_t)last->stride != stride))
		return 0;
	last->stride = (size_t)stride;
	last->count += pieces;
	list->at += (ptrdiff_t)pieces * stride;
	return 1;
}

void pmpi_runs_add_rows(struct pmpi_runs *list, ptrdiff_t at, size_t bytes, size_t count, ptrdiff_t stride)
{
	if (!bytes)
		return;
	if (stride == (ptrdiff_t)bytes) {
		pmpi_runs_add(list, at, bytes * count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		pmpi_runs_add(list, at + (ptrdiff_t)i * stride, bytes);
		if (i == 2 && count > 3 && stride > (ptrdiff_t)bytes && skip(list, bytes, count - 3, stride))
			return;
	}
}

int pmpi_runs_end(struct pmpi_runs *list, struct pmpi_run **runs, size_t *n)
{
	flush(list);
	if (list->failed) {
		free(list->runs);
		return MPI_ERR_NO_MEM;
	}
	*runs = list->runs;
	*n = list->n;
	return MPI_SUCCESS;
}

/* ---- By packing ---------------------------------------------------------------------------------------- */

struct numbered {
	unsigned char *in, *out; /* span and size bytes */
	size_t *at; /* of each byte of out: where in `in` it was */
	size_t size, span;
	ptrdiff_t from;
};

/* Packs the digit `digit` of each byte's number. */
static int pack_digit(MPI_Datatype type, struct numbered *p, int digit)
{
	int position = 0;
	for (size_t i = 0; i < p->span; i++)
		p->in[i] = (unsigned char)(i >> 8 * digit);
	const int ret = PMPI_Pack(p->in - p->from, 1, type, p->out, (int)p->size, &position, MPI_COMM_SELF);
	for (size_t i = 0; !ret && i < p->size; i++)
		p->at[i] |= (size_t)p->out[i] << 8 * digit;
	return ret;
}

static int pack_digits(MPI_Datatype type, struct numbered *p, struct pmpi_runs *list)
{
	int ret = p->in && p->out && p->at ? MPI_SUCCESS : MPI_ERR_NO_MEM;
	for (int digit = 0; !ret && digit < (int)sizeof(p->span) && p->span >> 8 * digit; digit++)
		ret = pack_digit(type, p, digit);
	for (size_t i = 0; !ret && i < p->size; i++)
		pmpi_runs_add(list, p->from + (ptrdiff_t)p->at[i], 1);
	return ret;
}

int pmpi_decode_by_packing(MPI_Datatype type, struct pmpi_run **runs, size_t *n)
{
	struct pmpi_runs list = { 0 };
	struct numbered p = { 0 };
	MPI_Aint from, span;
	MPI_Count size;
	PMPI_Type_commit(&type); /* a part of another type may not be */
	PMPI_Type_size_x(type, &size);
	PMPI_Type_get_true_extent(type, &from, &span);
	if (size > INT_MAX)
		return MPI_ERR_TYPE;
	p = (struct numbered){ .size = (size_t)size, .span = (size_t)span, .from = from };
	p.in = malloc(p.span + 1);
	p.out = malloc(p.size + 1);
	p.at = calloc(p.size + 1, sizeof(*p.at));
	const int ret = pack_digits(type, &p, &list);
	free(p.in);
	free(p.out);
	free(p.at);
	if (ret) {
		free(list.runs);
		return ret;
	}
	return pmpi_runs_end(&list, runs, n);
}
