/* Point to point and requests: Fortran's entries. */
#include <stdlib.h>
#include <string.h>

#include "fortran.h"

#ifdef OPEN_MPI

#define AT(buffer) fortran_address(buffer)
#define MESSAGE void *buffer, int *count, int *type, int *peer, int *tag, int *comm
#define MESSAGE_ARGUMENTS AT(buffer), *count, F_TYPE(type), *peer, *tag, F_COMM(comm)

/* ---- A status, and a request --------------------------------------------------------------------------- */

extern int mpi_fortran_status_ignore_[] __attribute__((weak)),
    mpi_fortran_statuses_ignore_[] __attribute__((weak));

enum { STATUS_INTS = sizeof(MPI_Status) / sizeof(MPI_Fint) };

static int is_ignored(const int *status)
{
	return status == MPI_F_STATUS_IGNORE || status == mpi_fortran_status_ignore_;
}

static int are_ignored(const int *statuses)
{
	return statuses == MPI_F_STATUSES_IGNORE || statuses == mpi_fortran_statuses_ignore_;
}

/* What a call of C has found goes to Fortran; ret is passed on. */
static int give_status(int ret, const MPI_Status *found, int *status)
{
	if (!is_ignored(status))
		PMPI_Status_c2f(found, status);
	return ret;
}

static int give_request(int ret, MPI_Request found, int *request)
{
	if (!ret)
		*request = PMPI_Request_c2f(found);
	return ret;
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

#define SEND(name, NAME, function) FORTRAN_ENTRY(name, NAME, (MESSAGE), function(MESSAGE_ARGUMENTS))
SEND(send, SEND, MPI_Send)
SEND(ssend, SSEND, MPI_Ssend)
SEND(rsend, RSEND, MPI_Rsend)
SEND(bsend, BSEND, MPI_Bsend)

typedef int isend_function(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static int isend(isend_function *function, MESSAGE, int *request)
{
	MPI_Request made = MPI_REQUEST_NULL;
	const int ret = function(MESSAGE_ARGUMENTS, &made);
	return give_request(ret, made, request);
}

#define ISEND(name, NAME, function)                                                                          \
	FORTRAN_ENTRY(name, NAME, (MESSAGE, int *request),                                                   \
		      isend(function, buffer, count, type, peer, tag, comm, request))
ISEND(isend, ISEND, MPI_Isend)
ISEND(issend, ISSEND, MPI_Issend)
ISEND(irsend, IRSEND, MPI_Irsend)
ISEND(ibsend, IBSEND, MPI_Ibsend)
ISEND(send_init, SEND_INIT, MPI_Send_init)
ISEND(ssend_init, SSEND_INIT, MPI_Ssend_init)
ISEND(rsend_init, RSEND_INIT, MPI_Rsend_init)
ISEND(bsend_init, BSEND_INIT, MPI_Bsend_init)

typedef int irecv_function(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static int irecv(irecv_function *function, MESSAGE, int *request)
{
	MPI_Request made = MPI_REQUEST_NULL;
	const int ret = function(MESSAGE_ARGUMENTS, &made);
	return give_request(ret, made, request);
}

FORTRAN_ENTRY(irecv, IRECV, (MESSAGE, int *request),
	      irecv(MPI_Irecv, buffer, count, type, peer, tag, comm, request))
FORTRAN_ENTRY(recv_init, RECV_INIT, (MESSAGE, int *request),
	      irecv(MPI_Recv_init, buffer, count, type, peer, tag, comm, request))

static int receive(MESSAGE, int *status)
{
	MPI_Status found = { 0 };
	const int ret = MPI_Recv(MESSAGE_ARGUMENTS, &found);
	return give_status(ret, &found, status);
}

FORTRAN_ENTRY(recv, RECV, (MESSAGE, int *status), receive(buffer, count, type, peer, tag, comm, status))

static int receive_matched(void *buffer, int *count, int *type, int *message, int *status)
{
	MPI_Message taken = PMPI_Message_f2c(*message);
	MPI_Status found = { 0 };
	const int ret = MPI_Mrecv(AT(buffer), *count, F_TYPE(type), &taken, &found);
	*message = PMPI_Message_c2f(taken);
	return give_status(ret, &found, status);
}

static int start_matched(void *buffer, int *count, int *type, int *message, int *request)
{
	MPI_Message taken = PMPI_Message_f2c(*message);
	MPI_Request made = MPI_REQUEST_NULL;
	const int ret = MPI_Imrecv(AT(buffer), *count, F_TYPE(type), &taken, &made);
	*message = PMPI_Message_c2f(taken);
	return give_request(ret, made, request);
}

FORTRAN_ENTRY(mrecv, MRECV, (void *buffer, int *count, int *type, int *message, int *status),
	      receive_matched(buffer, count, type, message, status))
FORTRAN_ENTRY(imrecv, IMRECV, (void *buffer, int *count, int *type, int *message, int *request),
	      start_matched(buffer, count, type, message, request))

static int exchange(void *in, int *in_count, int *in_type, int *to, int *in_tag, void *out, int *out_count,
		    int *out_type, int *from, int *out_tag, int *comm, int *status)
{
	MPI_Status found = { 0 };
	const int ret = MPI_Sendrecv(AT(in), *in_count, F_TYPE(in_type), *to, *in_tag, AT(out), *out_count,
				     F_TYPE(out_type), *from, *out_tag, F_COMM(comm), &found);
	return give_status(ret, &found, status);
}

static int replace(void *buffer, int *count, int *type, int *to, int *in_tag, int *from, int *out_tag,
		   int *comm, int *status)
{
	MPI_Status found = { 0 };
	const int ret = MPI_Sendrecv_replace(AT(buffer), *count, F_TYPE(type), *to, *in_tag, *from, *out_tag,
					     F_COMM(comm), &found);
	return give_status(ret, &found, status);
}

FORTRAN_ENTRY(sendrecv, SENDRECV,
	      (void *in, int *in_count, int *in_type, int *to, int *in_tag, void *out, int *out_count,
	       int *out_type, int *from, int *out_tag, int *comm, int *status),
	      exchange(in, in_count, in_type, to, in_tag, out, out_count, out_type, from, out_tag, comm,
		       status))
FORTRAN_ENTRY(sendrecv_replace, SENDRECV_REPLACE,
	      (void *buffer, int *count, int *type, int *to, int *in_tag, int *from, int *out_tag, int *comm,
	       int *status),
	      replace(buffer, count, type, to, in_tag, from, out_tag, comm, status))

/* ---- One request --------------------------------------------------------------------------------------- */

static int wait_one(int *request, int *status)
{
	MPI_Request c = PMPI_Request_f2c(*request);
	MPI_Status found = { 0 };
	const int ret = MPI_Wait(&c, &found);
	*request = PMPI_Request_c2f(c);
	return give_status(ret, &found, status);
}

static int test_one(int *request, int *flag, int *status)
{
	MPI_Request c = PMPI_Request_f2c(*request);
	MPI_Status found = { 0 };
	const int ret = MPI_Test(&c, flag, &found);
	*request = PMPI_Request_c2f(c);
	return ret || *flag ? give_status(ret, &found, status) : ret;
}

static int look(int *request, int *flag, int *status)
{
	MPI_Status found = { 0 };
	const int ret = MPI_Request_get_status(PMPI_Request_f2c(*request), flag, &found);
	return ret || *flag ? give_status(ret, &found, status) : ret;
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

FORTRAN_ENTRY(wait, WAIT, (int *request, int *status), wait_one(request, status))
FORTRAN_ENTRY(test, TEST, (int *request, int *flag, int *status), test_one(request, flag, status))
FORTRAN_ENTRY(request_get_status, REQUEST_GET_STATUS, (int *request, int *flag, int *status),
	      look(request, flag, status))
FORTRAN_ENTRY(request_free, REQUEST_FREE, (int *request), free_one(request))
FORTRAN_ENTRY(start, START, (int *request), start_one(request))

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
	for (int i = 0; i < n && !are_ignored(statuses); i++)
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
	ret = give_status(MPI_Waitany(*n, s.requests, index, &found), &found, status);
	count_from_one(index);
	return give(&s, ret, requests, 0, MPI_F_STATUSES_IGNORE);
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
		give_status(ret, &found, status);
	count_from_one(index);
	return give(&s, ret, requests, 0, MPI_F_STATUSES_IGNORE);
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
	return error ? error : give(&s, MPI_Startall(*n, s.requests), requests, 0, MPI_F_STATUSES_IGNORE);
}

FORTRAN_ENTRY(waitall, WAITALL, (int *n, int *requests, int *statuses), wait_all(n, requests, statuses))
FORTRAN_ENTRY(testall, TESTALL, (int *n, int *requests, int *flag, int *statuses),
	      test_all(n, requests, flag, statuses))
FORTRAN_ENTRY(waitany, WAITANY, (int *n, int *requests, int *index, int *status),
	      wait_any(n, requests, index, status))
FORTRAN_ENTRY(testany, TESTANY, (int *n, int *requests, int *index, int *flag, int *status),
	      test_any(n, requests, index, flag, status))
FORTRAN_ENTRY(waitsome, WAITSOME, (int *n, int *requests, int *count, int *indices, int *statuses),
	      some(MPI_Waitsome, n, requests, count, indices, statuses))
FORTRAN_ENTRY(testsome, TESTSOME, (int *n, int *requests, int *count, int *indices, int *statuses),
	      some(MPI_Testsome, n, requests, count, indices, statuses))
FORTRAN_ENTRY(startall, STARTALL, (int *n, int *requests), start_all(n, requests))

/* Functions with a logical argument: `use mpi_f08` has them in PMPI_ functions of `use mpi`, so the door takes its entries themselves. */
FORTRAN_ALIAS(test, mpi_test_f08_, (int *request, int *flag, int *status))
FORTRAN_ALIAS(testall, mpi_testall_f08_, (int *n, int *requests, int *flag, int *statuses))
FORTRAN_ALIAS(testany, mpi_testany_f08_, (int *n, int *requests, int *index, int *flag, int *status))
FORTRAN_ALIAS(testsome, mpi_testsome_f08_, (int *n, int *requests, int *count, int *indices, int *statuses))
FORTRAN_ALIAS(request_get_status, mpi_request_get_status_f08_, (int *request, int *flag, int *status))

#endif
