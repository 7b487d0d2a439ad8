/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of NCCL's shape: "host:pid:tid [device] NCCL INFO text". Lines of Corale go the same way, with "Corale: " before the text, errors as
 * WARN. Errors and warnings go to stderr; what NCCL_DEBUG asks for to stdout; all of it to NCCL_DEBUG_FILE where that is set, and to
 * CORALE_LOG_FILE before that.
 */
#ifndef DOOR_LOG_H
#define DOOR_LOG_H

#include "base/log.h"

/* Subsystems of NCCL_DEBUG_SUBSYS, in the order of log.c's names. */
enum door_log_subsystem {
	DOOR_LOG_INIT = 1 << 0,
	DOOR_LOG_COLL = 1 << 1,
	DOOR_LOG_P2P = 1 << 2,
	DOOR_LOG_SHM = 1 << 3,
	DOOR_LOG_NET = 1 << 4,
	DOOR_LOG_GRAPH = 1 << 5,
	DOOR_LOG_TUNING = 1 << 6,
	DOOR_LOG_ENV = 1 << 7,
	DOOR_LOG_ALLOC = 1 << 8,
	DOOR_LOG_ALLOC_HOST = 1 << 9,
	DOOR_LOG_CALL = 1 << 10,
	DOOR_LOG_PROXY = 1 << 11,
	DOOR_LOG_NVLS = 1 << 12,
	DOOR_LOG_BOOTSTRAP = 1 << 13,
	DOOR_LOG_REG = 1 << 14,
	DOOR_LOG_PROFILE = 1 << 15,
	DOOR_LOG_RAS = 1 << 16,
	DOOR_LOG_DESTROY = 1 << 17,
	DOOR_LOG_ALL = (1 << 18) - 1
};

/* Gives the process's lines their shape; before the settings are read, once (door_env_open). device: as there. */
void door_log_open(int (*device)(void));

/* True if INFO lines of these subsystems are printed. */
int door_log_wants_subsystem(unsigned subsystems);
static inline int door_log_wants(unsigned subsystems)
{
	return log_level >= LOG_INFO && door_log_wants_subsystem(subsystems);
}

/* An INFO line without "Corale: ", for lines that people look for in NCCL's log. Warnings are log_line's and log_error's. */
void door_log(unsigned subsystems, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Once a process, where NCCL_DEBUG asks for it: "NCCL version 2.28.9+cuda13.0 (Corale 0.1.0)". nccl: 22809; cuda: CUDA's 13000, 0: none. */
void door_log_version(int nccl, int cuda);

#endif
