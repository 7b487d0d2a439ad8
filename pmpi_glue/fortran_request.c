/*
 * Functions that start, complete, look at and free requests: Fortran's entries. Of MPICH only those of `use mpi_f08`, which call PMPI_ functions. With Open
 * MPI too `use mpi_f08` passes by the entries of `use mpi`, where a function has a logical argument.
 */
#include <stdlib.h>

#include "fortran.h"

#ifdef OPEN_MPI
#define REQUEST_ENTRY(name, NAME, parameters, call)                                                          \
	FORTRAN_ENTRY(name, NAME, parameters, call)                                                          \
	FORTRAN_ALIAS(name, mpi_##name##_f08_, FORTRAN_PARAMETERS parameters)
#else
#define REQUEST_ENTRY(name, NAME, parameters, call)                                                          \
	PMPI_EXPORT void mpi_##name##_f08_ FORTRAN_PARAMETERS parameters;                                    \
	void mpi_##name##_f08_ FORTRAN_PARAMETERS parameters                                                 \
	{                                                                                                    \
		const int error = (call);                                                                    \
		if (ierr)                                                                                    \
			*ierr = error;                                                                       \
	}
#endif

enum { STATUS_INTS = sizeof(MPI_Status) / sizeof(MPI_Fint) };

/* ---- One request --------------------------------------------------------------------------------------- */

static int wait_one(int *request, int *status)
{
	MPI_Request c = PMPI_Request_f2c(*request);
	MPI_Status found = { 0 };
	const int ret = MPI_Wait(&c, &found);
	*request = PMPI_Request_c2f(c);
	return fortran_give_status(ret, &found, status);
}

static int test_one(int *request, int *flag, int *status)
{
	MPI_Request c = PMPI_Request_f2c(*request);
	MPI_Status found = { 0 };
	const int ret = MPI_Test(&c, flag, &found);
	*request = PMPI_Request_c2f(c);
	return ret || *flag ? fortran_give_status(ret, &found, status) : ret;
}

static int look(int *request, int *flag, int *status)
{
	MPI_Status found = { 0 };
	const int ret = MPI_Request_get_status(PMPI_Request_f2c(*request), flag, &found);
	return ret || *flag ? fortran_give_status(ret, &found, status) : ret;
}

static int free_one(int *request)
{
	MPI_Request c = PMPI_Request_f2c(*request);
	const int ret = MPI_Request_free(&c);
	*request = PMPI_Request_c2f(c);
	return ret;
}

static int start_one(int *request)
{
	MPI_Request c = PMPI_Request_f2c(*request);
	const int ret = MPI_Start(&c);
	*request = PMPI_Request_c2f(c);
	return ret;
}

REQUEST_ENTRY(wait, WAIT, (int *request, int *status), wait_one(request, status))
REQUEST_ENTRY(test, TEST, (int *request, int *flag, int *status), test_one(request, flag, status))
REQUEST_ENTRY(request_get_status, REQUEST_GET_STATUS, (int *request, int *flag, int *status),
	      look(request, flag, status))
REQUEST_ENTRY(request_free, REQUEST_FREE, (int *request), free_one(request))
REQUEST_ENTRY(start, START, (int *request), start_one(request))

/* ---- Several ------------------------------------------------------------------------------------------- */

struct several {
	int n;
	MPI_Request *requests;
	MPI_Status *statuses;
};

/* NULL members: no memory. */
static int take(struct several *s, int n, const int *requests)
{
	*s = (struct several){ n, malloc(sizeof(MPI_Request) * (size_t)(n + 1)),
			       calloc((size_t)n + 1, sizeof(MPI_Status)) };
	if (!s->requests || !s->statuses) {
		free(s->requests);
		free(s->statuses);
		return pmpi_fail(MPI_COMM_WORLD);
	}
	for (int i = 0; i < n; i++)
		s->requests[i] = PMPI_Request_f2c(requests[i]);
	return MPI_SUCCESS;
}

/* The first n statuses go to Fortran, and all requests. */
static int give(struct several *s, int ret, int *requests, int n, int *statuses)
{
	for (int i = 0; i < s->n; i++)
		requests[i] = PMPI_Request_c2f(s->requests[i]);
	for (int i = 0; i < n && !fortran_statuses_are_ignored(statuses); i++)
		PMPI_Status_c2f(&s->statuses[i], statuses + (size_t)i * STATUS_INTS);
	free(s->requests);
	free(s->statuses);
	return ret;
}

static int wait_all(int *n, int *requests, int *statuses)
{
	struct several s;
	const int error = take(&s, *n, requests);
	return error ? error : give(&s, MPI_Waitall(*n, s.requests, s.statuses), requests, *n, statuses);
}

static int test_all(int *n, int *requests, int *flag, int *statuses)
{
	struct several s;
	int ret = take(&s, *n, requests);
	if (ret)
		return ret;
	ret = MPI_Testall(*n, s.requests, flag, s.statuses);
	return give(&s, ret, requests, ret || *flag ? *n : 0, statuses);
}

/* Fortran counts from 1. */
static void count_from_one(int *index)
{
	if (*index != MPI_UNDEFINED)
		++*index;
}

static int wait_any(int *n, int *requests, int *index, int *status)
{
	struct several s;
	MPI_Status found = { 0 };
	int ret = take(&s, *n, requests);
	if (ret)
		return ret;
	ret = fortran_give_status(MPI_Waitany(*n, s.requests, index, &found), &found, status);
	count_from_one(index);
	return give(&s, ret, requests, 0, NULL);
}

static int test_any(int *n, int *requests, int *index, int *flag, int *status)
{
	struct several s;
	MPI_Status found = { 0 };
	int ret = take(&s, *n, requests);
	if (ret)
		return ret;
	ret = MPI_Testany(*n, s.requests, index, flag, &found);
	if (ret || *flag)
		fortran_give_status(ret, &found, status);
	count_from_one(index);
	return give(&s, ret, requests, 0, NULL);
}

typedef int some_function(int, MPI_Request *, int *, int *, MPI_Status *);

static int some(some_function *function, int *n, int *requests, int *count, int *indices, int *statuses)
{
	struct several s;
	int ret = take(&s, *n, requests);
	if (ret)
		return ret;
	ret = function(*n, s.requests, count, indices, s.statuses);
	const int found = *count == MPI_UNDEFINED ? 0 : *count;
	for (int i = 0; i < found; i++)
		count_from_one(&indices[i]);
	return give(&s, ret, requests, found, statuses);
}

static int start_all(int *n, int *requests)
{
	struct several s;
	const int error = take(&s, *n, requests);
	return error ? error : give(&s, MPI_Startall(*n, s.requests), requests, 0, NULL);
}

REQUEST_ENTRY(waitall, WAITALL, (int *n, int *requests, int *statuses), wait_all(n, requests, statuses))
REQUEST_ENTRY(testall, TESTALL, (int *n, int *requests, int *flag, int *statuses),
	      test_all(n, requests, flag, statuses))
REQUEST_ENTRY(waitany, WAITANY, (int *n, int *requests, int *index, int *status),
	      wait_any(n, requests, index, status))
REQUEST_ENTRY(testany, TESTANY, (int *n, int *requests, int *index, int *flag, int *status),
	      test_any(n, requests, index, flag, status))
REQUEST_ENTRY(waitsome, WAITSOME, (int *n, int *requests, int *count, int *indices, int *statuses),
	      some(MPI_Waitsome, n, requests, count, indices, statuses))
REQUEST_ENTRY(testsome, TESTSOME, (int *n, int *requests, int *count, int *indices, int *statuses),
	      some(MPI_Testsome, n, requests, count, indices, statuses))
REQUEST_ENTRY(startall, STARTALL, (int *n, int *requests), start_all(n, requests))
