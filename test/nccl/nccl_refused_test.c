/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's functions that are refused or answered without a communicator, the last error, and NCCL_* variables by name. */
#include <pthread.h>

#include "test/helpers/unit.h"
#include "corale.h"
#include "base/log.h"
#include "nccl_glue/door.h"
#include "nccl_glue/env.h"
#include "nccl_glue/error.h"
#include "nccl_glue/nccl_device_host.h"

/* A communicator of 5 ranks, this one is rank 3. */
static int three_of_five;
static const ncclComm_t comm = (ncclComm_t)(void *)&three_of_five;

bool door_comm_shape(ncclComm_t asked, int *rank, int *nranks)
{
	if (asked != comm)
		return false;
	*rank = 3;
	*nranks = 5;
	return true;
}

static const char *const variables[][2] = {
	{ "NCCL_A", "-7" },
	{ "NCCL_B", "300" },
	{ "NCCL_C", NULL },
	{ "NCCL_D", "eth0" },
	{ "NCCL_E", "0x8000000000000000" },
	{ "NCCL_F", "" },
	{ "NCCL_G", "5x" },
};

const char *door_env(const char *name)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (!strcmp(variables[i][0], name))
			return variables[i][1];
	return NULL;
}

int door_env_count(void)
{
	return (int)(sizeof(variables) / sizeof(variables[0]));
}

const char *door_env_name(int i)
{
	return variables[i][0];
}

static char log_name[] = "/tmp/nccl_refused_test.XXXXXX";

/* The lines that the log has with this word. */
static int lines_with(const char *word)
{
	FILE *file = fopen(log_name, "r");
	char line[2048];
	int count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, word) != NULL;
	fclose(file);
	return count;
}

static int to_log(void **state)
{
	int fd = mkstemp(log_name);

	if (fd < 0)
		return -1;
	log_open(LOG_INFO, log_name);
	return 0;
}

static int drop_log(void **state)
{
	return remove(log_name);
}

/* Refused, by name, with what to do instead. */
#define REFUSES(call, name, instead)                                                                         \
	do {                                                                                                 \
		assert_int_equal(call, ncclInvalidUsage);                                                    \
		assert_memory_equal(ncclGetLastError(NULL), name ":", sizeof(name));                         \
		assert_non_null(strstr(ncclGetLastError(NULL), instead));                                    \
	} while (0)

UNIT_TEST(test_refused)
{
	const ncclTeam_t team = { 1, 0, 1 };
	const ncclMultimemHandle_t multimem = { NULL };

	REFUSES(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), "ncclCommSuspend", "destroy the communicator");
	REFUSES(ncclCommResume(comm), "ncclCommResume", "destroy the communicator");
	REFUSES(ncclPutSignal(NULL, 1, ncclInt8, 0, NULL, 0, 0, 0, 0, comm, NULL), "ncclPutSignal",
		"use ncclSend");
	REFUSES(ncclSignal(0, 0, 0, 0, comm, NULL), "ncclSignal", "use ncclSend");
	REFUSES(ncclWaitSignal(0, NULL, comm, NULL), "ncclWaitSignal", "use ncclSend");
	REFUSES(ncclDevCommCreate(comm, NULL, NULL), "ncclDevCommCreate", "from the host");
	REFUSES(ncclLsaBarrierCreateRequirement(team, 1, NULL, NULL), "ncclLsaBarrierCreateRequirement",
		"from the host");
	REFUSES(ncclGinBarrierCreateRequirement(comm, team, 1, NULL, NULL), "ncclGinBarrierCreateRequirement",
		"from the host");
	REFUSES(ncclGinOutboxCreateRequirement(1, 1, NULL, NULL), "ncclGinOutboxCreateRequirement",
		"from the host");
	REFUSES(ncclGinInboxA2ACreateRequirement(team, 1, 1, NULL, NULL), "ncclGinInboxA2ACreateRequirement",
		"from the host");
	REFUSES(ncclLLA2ACreateRequirement(1, 1, NULL, NULL), "ncclLLA2ACreateRequirement", "from the host");
	REFUSES(ncclGetLsaMultimemDevicePointer(NULL, 0, NULL), "ncclGetLsaMultimemDevicePointer",
		"use the buffer");
	REFUSES(ncclGetMultimemDevicePointer(NULL, 0, multimem, NULL), "ncclGetMultimemDevicePointer",
		"use the buffer");
	REFUSES(ncclGetLsaDevicePointer(NULL, 0, 0, NULL), "ncclGetLsaDevicePointer", "use the buffer");
	REFUSES(ncclGetPeerDevicePointer(NULL, 0, 0, NULL), "ncclGetPeerDevicePointer", "use the buffer");
	REFUSES(ncclGetMultimemDeviceLeInfo(NULL, 0, NULL, NULL), "ncclGetMultimemDeviceLeInfo",
		"use the buffer");
	REFUSES(ncclGetCftDeviceLeInfo(NULL, 0, 0, team, NULL, NULL), "ncclGetCftDeviceLeInfo",
		"use the buffer");
	REFUSES(ncclGetPeerDeviceLeInfo(NULL, 0, 0, NULL, NULL), "ncclGetPeerDeviceLeInfo", "use the buffer");
}

/* The log has a refusal once, the last error each time, and pncclX is the same function. */
UNIT_TEST(test_logged_once)
{
	for (int i = 0; i < 3; i++) {
		door_keep_error("another");
		REFUSES(pncclCommSuspend(comm, 0), "ncclCommSuspend", "destroy");
	}
	assert_int_equal(lines_with("ncclCommSuspend: "), 1);
}

UNIT_TEST(test_encryption)
{
	ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;

	assert_int_equal(ncclSetEncryption(&config), ncclSuccess);
	config.mode = NCCL_ENCRYPTION_MODE_PSK;
	REFUSES(ncclSetEncryption(&config), "ncclSetEncryption", "leave the mode");
	config.mode = 2;
	assert_int_equal(ncclSetEncryption(&config), ncclInvalidArgument);
	config.mode = 0;
	config.magic = 0;
	assert_int_equal(ncclSetEncryption(&config), ncclInvalidArgument);
	assert_int_equal(ncclSetEncryption(NULL), ncclInvalidArgument);
}

static void is_team(ncclTeam_t team, int nranks, int rank)
{
	assert_int_equal(team.nRanks, nranks);
	assert_int_equal(team.rank, rank);
	assert_int_equal(team.stride, 1);
}

UNIT_TEST(test_answers)
{
	void *pointer = &three_of_five;

	is_team(ncclTeamWorld(comm), 5, 3);
	is_team(ncclTeamWorld(NULL), 1, 0);
	is_team(ncclTeamRail(comm), 1, 0);
	is_team(ncclTeamLsa(comm), 1, 0);
	is_team(ncclTeamCft(comm, NCCL_CFT_TEAM_FLAT), 1, 0);
	is_team(ncclTeamCftMultimem(comm), 1, 0);
	for (int rank = 0; rank < 5; rank++)
		assert_int_equal(ncclTeamRankToWorld(comm, ncclTeamWorld(comm), rank), rank);
	assert_int_equal(ncclTeamRankToWorld(comm, ncclTeamLsa(comm), 0), 3);
	assert_int_equal(ncclTeamRankToLsa(comm, ncclTeamLsa(comm), 0), 0);
	assert_int_equal(ncclTeamRankToLsa(comm, ncclTeamWorld(comm), 3), 0);
	assert_int_equal(ncclLLA2ACalcSlots(8, 8), 0);
	assert_int_equal(ncclDevCommDestroy(comm, NULL), ncclSuccess);
	assert_int_equal(ncclWinGetUserPtr(comm, NULL, &pointer), ncclSuccess);
	assert_null(pointer);
	assert_int_equal(ncclWinGetUserPtr(comm, NULL, NULL), ncclInvalidArgument);
	ncclResetDebugInit();
}

UNIT_TEST(test_codes)
{
	static const int codes[][2] = {
		{ CORALE_OK, 0 },        { CORALE_EINVAL, 4 },     { CORALE_ENOMEM, 2 },
		{ CORALE_ESYSTEM, 2 },   { CORALE_ENOTSUP, 5 },    { CORALE_EMISMATCH, 5 },
		{ CORALE_ETIMEDOUT, 6 }, { CORALE_EPEER, 6 },      { CORALE_EABORTED, 6 },
		{ CORALE_ECOMM, 6 },     { CORALE_ETRANSPORT, 6 }, { CORALE_EDEVICE, 1 },
		{ CORALE_ESETTING, 5 },  { CORALE_EINTERNAL, 3 },  { -99, 3 },
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		assert_int_equal(door_error_of(codes[i][0]), codes[i][1]);
	assert_string_equal(ncclGetErrorString(ncclSuccess), "no error");
	assert_string_equal(ncclGetErrorString(ncclInvalidUsage),
			    "invalid usage (run with NCCL_DEBUG=WARN for details)");
	assert_string_equal(ncclGetErrorString(ncclTimeout), "timeout");
	assert_string_equal(ncclGetErrorString(ncclNumResults), "unknown result code");
	assert_string_equal(ncclGetErrorString((ncclResult_t)-1), "unknown result code");
}

UNIT_TEST(test_last_error)
{
	char text[3 * DOOR_ERROR_BYTES], number[16];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	door_keep_error(text);
	const char *kept = ncclGetLastError(NULL);
	assert_int_equal(strlen(kept), DOOR_ERROR_BYTES - 1);
	door_keep_error(text);
	assert_ptr_equal(ncclGetLastError(comm), kept);
	for (int i = 0; i < 60; i++) { /* the text stays where it is while others fail */
		snprintf(number, sizeof(number), "error %d", i);
		door_keep_error(number);
		assert_string_equal(ncclGetLastError(NULL), number);
		assert_int_equal(strlen(kept), DOOR_ERROR_BYTES - 1);
	}
	assert_int_equal(door_refuse(ncclRemoteError, "rank %d is gone", 7), ncclRemoteError);
	assert_string_equal(ncclGetLastError(NULL), "rank 7 is gone");
	assert_int_equal(lines_with("rank 7 is gone"), 1);
}

static void *fail_often(void *argument)
{
	char text[64];

	for (int i = 0; i < 2000; i++) {
		snprintf(text, sizeof(text), "thread %d error %d", *(int *)argument, i);
		door_keep_error(text);
		assert_non_null(ncclGetLastError(NULL));
	}
	return NULL;
}

UNIT_TEST(test_threads)
{
	pthread_t threads[4];
	int numbers[4] = { 0, 1, 2, 3 };

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fail_often, &numbers[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_non_null(strstr(ncclGetLastError(NULL), "error 1999"));
}

static ncclParamHandle_t handle_of(const char *key)
{
	ncclParamHandle_t handle = NULL;

	assert_int_equal(ncclParamBind(&handle, key), ncclSuccess);
	assert_non_null(handle);
	return handle;
}

UNIT_TEST(test_bind)
{
	ncclParamHandle_t handle = NULL;
	int number;

	assert_int_equal(ncclParamBind(&handle, "NCCL_Z"), ncclInvalidArgument);
	assert_null(handle);
	assert_non_null(strstr(ncclGetLastError(NULL), "NCCL_Z"));
	assert_int_equal(ncclParamBind(NULL, "NCCL_A"), ncclInvalidArgument);
	assert_int_equal(ncclParamBind(&handle, NULL), ncclInvalidArgument);
	assert_int_equal(ncclParamGetI32(NULL, &number), ncclInvalidArgument);
	assert_int_equal(ncclParamGetI32((ncclParamHandle_t)(void *)&number, &number), ncclInvalidArgument);
	assert_int_equal(ncclParamGetI32(handle_of("NCCL_A"), NULL), ncclInvalidArgument);
}

UNIT_TEST(test_numbers)
{
	int8_t i8;
	int32_t i32;
	int64_t i64;
	uint16_t u16;
	uint64_t u64;

	assert_int_equal(ncclParamGetI8(handle_of("NCCL_A"), &i8), ncclSuccess);
	assert_int_equal(i8, -7);
	assert_int_equal(ncclParamGetU64(handle_of("NCCL_A"), &u64), ncclInvalidArgument);
	assert_int_equal(ncclParamGetI8(handle_of("NCCL_B"), &i8), ncclInvalidArgument);
	assert_int_equal(ncclParamGetU16(handle_of("NCCL_B"), &u16), ncclSuccess);
	assert_int_equal(u16, 300);
	assert_int_equal(ncclParamGetI64(handle_of("NCCL_E"), &i64), ncclInvalidArgument);
	assert_int_equal(ncclParamGetU64(handle_of("NCCL_E"), &u64), ncclSuccess);
	assert_true(u64 == (uint64_t)1 << 63);
	assert_int_equal(ncclParamGetI32(handle_of("NCCL_C"), &i32), ncclInvalidArgument);
	assert_non_null(strstr(ncclGetLastError(NULL), "NCCL_C is not set"));
	assert_int_equal(ncclParamGetI32(handle_of("NCCL_D"), &i32), ncclInvalidArgument);
	assert_int_equal(ncclParamGetI32(handle_of("NCCL_F"), &i32), ncclInvalidArgument);
	assert_int_equal(ncclParamGetI32(handle_of("NCCL_G"), &i32), ncclInvalidArgument);
}

UNIT_TEST(test_texts)
{
	const char *text, **table;
	char bytes[5];
	int length;

	assert_int_equal(ncclParamGetStr(handle_of("NCCL_D"), &text), ncclSuccess);
	assert_string_equal(text, "eth0");
	assert_int_equal(ncclParamGetStr(handle_of("NCCL_C"), &text), ncclSuccess);
	assert_string_equal(text, "");
	assert_int_equal(ncclParamGet(handle_of("NCCL_D"), bytes, 4, &length), ncclInvalidArgument);
	assert_int_equal(length, 5);
	assert_int_equal(ncclParamGet(handle_of("NCCL_D"), bytes, 5, &length), ncclSuccess);
	assert_string_equal(bytes, "eth0");
	assert_int_equal(ncclParamGetParameter("NCCL_B", &text, &length), ncclSuccess);
	assert_string_equal(text, "300");
	assert_int_equal(length, 3);
	assert_int_equal(ncclParamGetParameter("NCCL_Z", &text, &length), ncclInvalidArgument);
	assert_null(text);
	assert_int_equal(ncclParamGetAllParameterKeys(&table, &length), ncclSuccess);
	assert_int_equal(length, door_env_count());
	assert_string_equal(table[3], "NCCL_D");
	ncclParamDumpAll();
	assert_int_equal(lines_with("NCCL_D = eth0"), 1);
	assert_int_equal(lines_with("NCCL_C is not set"), 1);
}

int main(void)
{
	return unit_run(to_log, drop_log);
}
