/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Init and MPI_Finalize: the door opens where all ranks agree. */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "comm.h"
#include "corale.h"
#include "door.h"
#include "peer.h"
#include "request.h"
#include "statistics.h"
#include "types.h"

struct pmpi_state pmpi;

#ifdef OPEN_MPI
static const char built_for[] = "Open MPI";
static const int peer_by_default = 1;
static const char *const others[] = { "libmpich.so", "libmpi.so.12", NULL };
#else
static const char built_for[] = "MPICH";
static const int peer_by_default =
    0; /* its MPI_Request_get_status calls the handler of MPI_COMM_WORLD for a message that was truncated */
static const char *const others[] = { "libmpi.so.40", "libopen-pal.so", NULL };
#endif

int pmpi_fail(MPI_Comm comm)
{
	PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
	return MPI_ERR_OTHER;
}

/*
 * A look at a request that never ends: MPI advances all others meanwhile. (A probe does so in Open MPI, not in MPICH.) Any number of threads may look at
 * one request. It is a receive on a communicator of its own, on which nobody sends.
 */
static MPI_Request endless = MPI_REQUEST_NULL;

void pmpi_progress(void *unused)
{
	(void)unused;
	int is_there;
	PMPI_Request_get_status(endless, &is_there, MPI_STATUS_IGNORE);
}

static int progress_start(void)
{
	int error = PMPI_Comm_dup(MPI_COMM_SELF, &pmpi.quiet);
	if (!error)
		error = PMPI_Comm_set_errhandler(pmpi.quiet, MPI_ERRORS_RETURN);
	return error ? error : PMPI_Irecv(NULL, 0, MPI_BYTE, 0, 0, pmpi.quiet, &endless);
}

static void progress_end(void)
{
	PMPI_Cancel(&endless);
	PMPI_Wait(&endless, MPI_STATUS_IGNORE);
	PMPI_Comm_free(&pmpi.quiet);
}

/* ---- The MPI that the program has. Handles of another one are of another form, so nothing of it can be called. */

static int is_other(struct dl_phdr_info *info, size_t size, void *name)
{
	const char *file = strrchr(info->dlpi_name, '/');
	(void)size;
	file = file ? file + 1 : info->dlpi_name;
	for (int i = 0; others[i]; i++)
		if (!strncmp(file, others[i], strlen(others[i]))) {
			*(const char **)name = info->dlpi_name;
			return 1;
		}
	return 0;
}

static void refuse_other_mpi(void)
{
	const char *name;
	if (!dl_iterate_phdr(is_other, &name))
		return;
	log_line(LOG_ERROR, -1,
		 "this libcorale_pmpi.so is built for %s, and the program has another MPI (%s): build Corale "
		 "for that one (configure --with-mpi=WRAPPER), or start the program without corale-run --mpi",
		 built_for, name);
	exit(1);
}

/* ---- All ranks agree */

/* Settings that can't be read turn the door off. *wants_peer: CORALE_MPI_PEER. */
static void take_settings(int *wants_peer)
{
	const struct settings *settings;
	pmpi.mode = PMPI_MODE_OFF;
	if (settings_get(&settings))
		return; /* logged */
	log_open(settings->debug, *settings->log_file ? settings->log_file : NULL);
	pmpi.mode = settings->mpi;
	pmpi.most_comms = settings->mpi_comms;
	pmpi.calls_before = settings->mpi_after;
	*wants_peer = settings->mpi_peer == SETTINGS_PEER_YES ||
		      (settings->mpi_peer == SETTINGS_PEER_AUTO && peer_by_default);
	if (pmpi.mode == PMPI_MODE_DEVICE || pmpi.mode == PMPI_MODE_ALL)
		pmpi.device = pmpi_device_find();
}

/* On rank 0's settings, and whether a rank has a device and one wants peer copies: *has_both. */
static int agree(int wants_peer, int *has_both)
{
	const int mine[3] = { pmpi.mode, pmpi.most_comms, pmpi.calls_before };
	const int wishes[2] = { pmpi.device && pmpi.device->is_there(), wants_peer };
	int of_root[3], any[2];
	memcpy(of_root, mine, sizeof mine);
	int error = PMPI_Bcast(of_root, 3, MPI_INT, 0, MPI_COMM_WORLD);
	if (!error)
		error = PMPI_Allreduce(wishes, any, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (error)
		return error;
	if (memcmp(of_root, mine, sizeof mine))
		log_line(LOG_WARN, pmpi.rank,
			 "CORALE_MPI, CORALE_MPI_COMMS or CORALE_MPI_AFTER differ from those of rank 0, "
			 "which are used: set them alike on all ranks");
	pmpi.mode = of_root[0];
	pmpi.most_comms = of_root[1];
	pmpi.calls_before = of_root[2];
	if (!any[0] || pmpi.mode == PMPI_MODE_HOST || pmpi.mode == PMPI_MODE_OFF)
		pmpi.device = NULL;
	pmpi.on = pmpi.mode == PMPI_MODE_ALL || pmpi.mode == PMPI_MODE_HOST ||
		  (pmpi.mode == PMPI_MODE_DEVICE && any[0]);
	*has_both = any[0] && any[1];
	return MPI_SUCCESS;
}

static int is_started;

static int start(void)
{
	int error, wants_peer = 0, has_peers = 0;
	is_started = 1;
	PMPI_Comm_rank(MPI_COMM_WORLD, &pmpi.rank);
	PMPI_Comm_size(MPI_COMM_WORLD, &pmpi.size);
	PMPI_Query_thread(&pmpi.thread_level);
	error = PMPI_Comm_group(MPI_COMM_WORLD, &pmpi.world);
	if (!error)
		error = pmpi_comms_start();
	take_settings(&wants_peer);
	if (!error)
		error = agree(wants_peer, &has_peers);
	pmpi.counts = pmpi.on && log_level >= LOG_INFO;
	if (!error && pmpi.on)
		error = progress_start();
	if (!error && pmpi.on && corale_set_progress(pmpi_progress, NULL))
		pmpi.on = 0; /* logged */
	return error || !has_peers ? error : pmpi_peer_start(wants_peer);
}

/* Behind a tool's MPI_Init. One that looks PMPI_ names up behind itself, where the door is not, has passed it by. */
static int started_by(const void *tool, int error)
{
	if (error || is_started)
		return error;
	log_line(LOG_WARN, -1,
		 "%s is linked to the program and calls MPI without the MPI door in front of it, so it is "
		 "left out from here on: set LD_PRELOAD to it in front of corale-run --mpi",
		 pmpi_file_of(tool));
	pmpi_forget_tools();
	return start();
}

/* As PMPI_ENTRY, with a start behind it. */
#define INIT_ENTRY(name, parameters, arguments)                                                              \
	PMPI_INSIDE(name, parameters, arguments)                                                             \
	static int own_##name parameters                                                                     \
	{                                                                                                    \
		refuse_other_mpi();                                                                          \
		const int error = P##name arguments;                                                         \
		return error ? error : start();                                                              \
	}                                                                                                    \
	PMPI_EXPORT int name parameters                                                                      \
	{                                                                                                    \
		static pmpi_link link;                                                                       \
		__typeof__(name) *const tool = pmpi_tool(&link, #name);                                      \
		return tool ? started_by(tool, tool arguments) : inside_##name arguments;                    \
	}
INIT_ENTRY(MPI_Init, (int *argc, char ***argv), (argc, argv))
INIT_ENTRY(MPI_Init_thread, (int *argc, char ***argv, int required, int *provided),
	   (argc, argv, required, provided))

/* Corale ends first, while MPI still carries what the ends of communicators need. */
PMPI_ENTRY(MPI_Finalize, (void), ())
{
	if (pmpi.on) {
		pmpi_peer_end();
		pmpi_comms_end();
		pmpi_statistics_print();
		corale_set_progress(NULL, NULL);
		progress_end();
		if (pmpi.device) {
			pmpi_requests_end();
			pmpi_types_end();
			pmpi_memory_end();
		}
	}
	pmpi.on = 0;
	pmpi.device = NULL;
	if (pmpi.world)
		PMPI_Group_free(&pmpi.world);
	return PMPI_Finalize();
}

/* ---- What programs ask before they pass device buffers */

PMPI_EXPORT int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void)
{
	return pmpi.device && pmpi.device->corale_device == CORALE_DEVICE_CUDA;
}

/* MPI 4.1's question: the kinds of memory that calls on comm take. */
PMPI_ENTRY(MPI_Comm_get_info, (MPI_Comm comm, MPI_Info *info), (comm, info))
{
	char kinds[MPI_MAX_INFO_VAL] = "mpi,system", key[] = "mpi_memory_alloc_kinds";
	int is_there = 0, error = PMPI_Comm_get_info(comm, info);
	if (error || !MPIX_Query_cuda_support())
		return error;
	PMPI_Info_get(*info, key, (int)sizeof kinds - 32, kinds, &is_there);
	return PMPI_Info_set(*info, key, strcat(kinds, ",cuda:device"));
}
