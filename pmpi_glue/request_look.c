/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI 4.1's looks at several requests, none of which they complete. With work they are looked at one by one. MPI_Buffer_flush and its kin are MPI's own: a header is in its buffer as a message is. */
#include "door.h"
#include "request.h"

#if PMPI_HAS_MPI41
/* MPI 4.1's requests are constant here; those of MPICH 4.2 are not. */
typedef __typeof__(_Generic(&PMPI_Request_get_status_any,
			    int (*)(int, const MPI_Request *, int *, int *, MPI_Status *)
			    : (const MPI_Request *)NULL, default
			    : (MPI_Request *)NULL)) requests_in;

/* is_active: not null, and started. MPI alone knows that; its word that the request is complete may be of a header. */
static int look(MPI_Request request, int *is_active, int *flag, MPI_Status *status)
{
	int index;
	const int ret = PMPI_Request_get_status_any(1, &request, &index, flag, status);
	*is_active = !*flag || index != MPI_UNDEFINED;
	return ret || !*flag || !*is_active ? ret : pmpi_look_at(request, flag, status);
}

PMPI_ENTRY(MPI_Request_get_status_all, (int n, requests_in requests, int *flag, MPI_Status statuses[]),
	   (n, requests, flag, statuses))
{
	int ret = MPI_SUCCESS;
	if (!pmpi_pending_n)
		return PMPI_Request_get_status_all(n, requests, flag, statuses);
	*flag = 1;
	for (int i = 0, is_complete; i < n && !ret; i++) {
		ret = pmpi_look_at(requests[i], &is_complete,
				   statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
		*flag &= is_complete;
	}
	return ret;
}

/* The first `most` that are complete. *count: MPI_UNDEFINED: none is active. */
static int look_at_some(int n, requests_in requests, int most, int *count, int *indices, MPI_Status *statuses)
{
	int any_active = 0, ret = MPI_SUCCESS;
	MPI_Status own;
	*count = 0;
	for (int i = 0, is_active, flag; i < n && !ret && *count < most; i++) {
		const int is_ignored = statuses == MPI_STATUSES_IGNORE || statuses == MPI_STATUS_IGNORE;
		ret = look(requests[i], &is_active, &flag, is_ignored ? &own : &statuses[*count]);
		if (flag && is_active)
			indices[(*count)++] = i;
		any_active |= is_active;
	}
	if (!any_active)
		*count = MPI_UNDEFINED;
	return ret;
}

PMPI_ENTRY(MPI_Request_get_status_any,
	   (int n, requests_in requests, int *index, int *flag, MPI_Status *status),
	   (n, requests, index, flag, status))
{
	int count;
	if (!pmpi_pending_n || n <= 0)
		return PMPI_Request_get_status_any(n, requests, index, flag, status);
	*index = MPI_UNDEFINED;
	const int ret = look_at_some(n, requests, 1, &count, index, status);
	*flag = count != 0;
	return ret;
}

PMPI_ENTRY(MPI_Request_get_status_some,
	   (int n, requests_in requests, int *count, int indices[], MPI_Status statuses[]),
	   (n, requests, count, indices, statuses))
{
	if (!pmpi_pending_n || n <= 0)
		return PMPI_Request_get_status_some(n, requests, count, indices, statuses);
	return look_at_some(n, requests, n, count, indices, statuses);
}
#endif
