/* Messages: Fortran's entries for Open MPI. */
#include "fortran.h"

#ifdef OPEN_MPI

#define AT(buffer) fortran_address(buffer)
#define MESSAGE void *buffer, int *count, int *type, int *peer, int *tag, int *comm
#define MESSAGE_ARGUMENTS AT(buffer), *count, F_TYPE(type), *peer, *tag, F_COMM(comm)

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
	return fortran_give_status(ret, &found, status);
}

FORTRAN_ENTRY(recv, RECV, (MESSAGE, int *status), receive(buffer, count, type, peer, tag, comm, status))

static int receive_matched(void *buffer, int *count, int *type, int *message, int *status)
{
	MPI_Message taken = PMPI_Message_f2c(*message);
	MPI_Status found = { 0 };
	const int ret = MPI_Mrecv(AT(buffer), *count, F_TYPE(type), &taken, &found);
	*message = PMPI_Message_c2f(taken);
	return fortran_give_status(ret, &found, status);
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
	return fortran_give_status(ret, &found, status);
}

static int replace(void *buffer, int *count, int *type, int *to, int *in_tag, int *from, int *out_tag,
		   int *comm, int *status)
{
	MPI_Status found = { 0 };
	const int ret = MPI_Sendrecv_replace(AT(buffer), *count, F_TYPE(type), *to, *in_tag, *from, *out_tag,
					     F_COMM(comm), &found);
	return fortran_give_status(ret, &found, status);
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

#endif
