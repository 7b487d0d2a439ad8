/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of NCCL's shape: "host:pid:tid [device] NCCL INFO text". Lines of Corale go the same way, with "Corale: " before the text, errors as
 * WARN. Errors and warnings go to stderr; what NCCL_DEBUG asks for to stdout; all of it to NCCL_DEBUG_FILE where that is set, and to
 * CORALE_LOG_FILE before that.
 */
#ifndef DOOR_LOG_H
#define DOOR_LOG_H

#include "base/log.h"

/* Subsystems of NCCL_DEBUG_SUBSYS: a bit each. */
/* clang-format off */
#define DOOR_LOG_SUBSYSTEMS(F)                                                                               \
	F(INIT) F(COLL) F(P2P) F(SHM) F(NET) F(GRAPH) F(TUNING) F(ENV) F(ALLOC) F(ALLOC_HOST) F(CALL)        \
	F(PROXY) F(NVLS) F(BOOTSTRAP) F(REG) F(PROFILE) F(RAS) F(DESTROY)
#define DOOR_LOG_INDEX(name) DOOR_LOG_INDEX_##name,
#define DOOR_LOG_BIT(name) DOOR_LOG_##name = 1 << DOOR_LOG_INDEX_##name,
enum { DOOR_LOG_SUBSYSTEMS(DOOR_LOG_INDEX) DOOR_LOG_COUNT };
enum { DOOR_LOG_SUBSYSTEMS(DOOR_LOG_BIT) DOOR_LOG_ALL = (1 << DOOR_LOG_COUNT) - 1 };
/* clang-format on */

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
