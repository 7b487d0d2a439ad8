/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of codes, names of types, operators and collectives, and the log's lines. */
#include <pthread.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "base/status.h"
#include "base/types.h"

UNIT_TEST(test_every_code_has_its_own_text)
{
	for (int a = CORALE_EINTERNAL; a <= CORALE_INPROGRESS; a++) {
		assert_non_null(corale_strerror(a));
		assert_string_not_equal(corale_strerror(a), "unknown error code");
		for (int b = CORALE_EINTERNAL; b < a; b++)
			assert_string_not_equal(corale_strerror(a), corale_strerror(b));
	}
	assert_string_equal(corale_strerror(CORALE_EINTERNAL - 1), "unknown error code");
	assert_string_equal(corale_strerror(2), "unknown error code");
	assert_string_equal(corale_strerror(CORALE_EPEER), "a peer died, left, or its link failed");
}

UNIT_TEST(test_names_and_sizes)
{
	static const struct {
		const char *name;
		size_t bytes;
	} types[] = {
		/* by number, which programs hold */
		{ "int8", 1 },        { "uint8", 1 },        { "int32", 4 },         { "uint32", 4 },
		{ "int64", 8 },       { "uint64", 8 },       { "float16", 2 },       { "bfloat16", 2 },
		{ "float32", 4 },     { "float64", 8 },      { "float8_e4m3", 1 },   { "float8_e5m2", 1 },
		{ "int16", 2 },       { "uint16", 2 },       { "bool", 1 },          { "complex64", 8 },
		{ "complex128", 16 }, { "pair_float32", 8 }, { "pair_float64", 16 }, { "pair_int64", 16 },
		{ "pair_int32", 8 },  { "pair_int16", 8 },
	};

	static const char *const ops[CORALE_NUM_OPS + 1] = {
		/* too */
		"sum",     "prod",        "min",        "max",         "avg",     "bit_and", "bit_or",
		"bit_xor", "logical_and", "logical_or", "logical_xor", "min_loc", "max_loc", "premul_sum"
	};
	assert_int_equal(sizeof(types) / sizeof(*types), CORALE_NUM_TYPES);
	for (int i = 0; i < CORALE_NUM_TYPES; i++) {
		assert_string_equal(corale_type_name((corale_type)i), types[i].name);
		assert_int_equal(corale_type_bytes((corale_type)i), types[i].bytes);
		assert_in_range(types[i].bytes, 1, TYPE_MOST_BYTES);
		assert_int_equal(type_is_float((corale_type)i),
				 strstr(types[i].name, "float") && !strstr(types[i].name, "pair"));
	}
	for (int op = 0; op <= CORALE_NUM_OPS; op++)
		assert_string_equal(corale_op_name(op), ops[op]);
	assert_string_equal(corale_op_name(CORALE_NUM_OPS + 7), "premul_sum");
	assert_string_equal(corale_coll_name(CORALE_ALL_TO_ALL_V), "all_to_all_v");
	assert_int_equal(corale_version(), CORALE_VERSION);
}

UNIT_TEST(test_what_is_not_valid)
{
	assert_int_equal(corale_type_bytes((corale_type)-1), 0);
	assert_int_equal(corale_type_bytes(CORALE_NUM_TYPES), 0);
	assert_string_equal(corale_type_name(CORALE_NUM_TYPES), "invalid type");
	assert_string_equal(corale_op_name(-1), "invalid operator");
	assert_string_equal(corale_coll_name(CORALE_NUM_COLLS), "invalid collective");
	assert_false(type_is_float(CORALE_NUM_TYPES));
}

/* What codelets fold is not lowered, and the other way round: GPUs have every operator of a type. */
UNIT_TEST(test_operators_of_gpus)
{
	for (int type = 0; type < CORALE_NUM_TYPES; type++) {
		for (int op = 0; op <= CORALE_NUM_OPS; op++)
			assert_int_equal((type_codelet_ops(type) >> op & 1) +
					     (unsigned)type_folds_lowered(type, op),
					 type_has_op(type, op));
		assert_true(!type_in_words(type) || type_codelet_ops(type) >> CORALE_SUM & 1);
	}
	assert_true(type_folds_lowered(CORALE_COMPLEX64, CORALE_PROD));
	assert_false(type_folds_lowered(CORALE_COMPLEX128, CORALE_AVG));
	assert_true(type_folds_lowered(CORALE_INT16, CORALE_LOGICAL_XOR));
	assert_false(type_folds_lowered(CORALE_UINT64, CORALE_NUM_OPS));
}

/* What the log wrote into its file, which is emptied. */
static void read_log(const char *path, char *text, size_t bytes)
{
	FILE *file = fopen(path, "r+");
	assert_non_null(file);
	text[fread(text, 1, bytes - 1, file)] = '\0';
	assert_int_equal(ftruncate(fileno(file), 0), 0);
	fclose(file);
}

UNIT_TEST(test_lines)
{
	char path[] = "/tmp/corale_status_test_XXXXXX", text[4096], value[3000];
	int fd = mkstemp(path);

	close(fd);
	log_open(LOG_WARN, path);
	assert_int_equal(log_error(CORALE_EPEER, 3, "rank %d\nis gone", 5), CORALE_EPEER);
	read_log(path, text, sizeof(text));
	assert_memory_equal(text, "corale: ERROR ", 14);
	assert_non_null(strstr(text, " rank 3: rank 5 is gone\n"));
	assert_string_equal(log_last_error(), "rank 5 is gone");

	log_line(LOG_INFO, 3, "not at this level");
	log_line(LOG_WARN, -1, "of no rank");
	read_log(path, text, sizeof(text));
	assert_non_null(strstr(text, ": of no rank\n"));
	assert_null(strstr(text, "not at this level"));
	assert_null(strstr(text, "rank -1"));
	assert_string_equal(log_last_error(), "rank 5 is gone");

	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	log_line(LOG_WARN, 0, "%s", value);
	read_log(path, text, sizeof(text));
	assert_in_range(strlen(text), 900, 1024);
	assert_string_equal(text + strlen(text) - 4, "...\n");
	log_open(LOG_WARN, NULL);
	unlink(path);
}

static int count_in(const char *text, const char *part)
{
	int n = 0;
	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

/* A line that could not be seen does not count. */
UNIT_TEST(test_once)
{
	char path[] = "/tmp/corale_status_test_XXXXXX", text[4096];
	int fd = mkstemp(path);
	static _Atomic int said, said_other;

	close(fd);
	log_open(LOG_ERROR, path);
	log_once(&said, LOG_WARN, 0, "of all communicators");
	log_open(LOG_WARN, path);
	for (int i = 0; i < 3; i++) {
		log_once(&said, LOG_WARN, i, "of all communicators, %d", i);
		log_once(&said_other, LOG_WARN, i, "another one");
	}
	read_log(path, text, sizeof(text));
	assert_int_equal(count_in(text, "of all communicators"), 1);
	assert_int_equal(count_in(text, " rank 0: of all communicators, 0\n"), 1);
	assert_int_equal(count_in(text, "another one"), 1);
	log_open(LOG_WARN, NULL);
	unlink(path);
}

UNIT_TEST(test_silent_log_keeps_the_last_error)
{
	log_open(LOG_NONE, NULL);
	log_error(CORALE_EINVAL, 0, "kept for the caller");
	assert_string_equal(log_last_error(), "kept for the caller");
	log_open(LOG_WARN, NULL);
}

UNIT_TEST(test_process_id_in_the_name)
{
	char path[128], text[256];

	snprintf(path, sizeof(path), "/tmp/corale_status_test_%ld.log", (long)getpid());
	log_open(LOG_WARN, "/tmp/corale_status_test_%p.log");
	log_line(LOG_WARN, 1, "here");
	log_open(LOG_WARN, NULL);
	read_log(path, text, sizeof(text));
	assert_non_null(strstr(text, "here"));
	unlink(path);
}

static void *fail_in_a_thread(void *arg)
{
	char *seen = arg;
	snprintf(seen, 32, "%s", log_last_error());
	log_error(CORALE_EINVAL, 0, "of the other thread");
	return NULL;
}

UNIT_TEST(test_last_error_is_the_threads_own)
{
	pthread_t thread;
	char seen[32] = "?";

	log_open(LOG_NONE, NULL);
	log_error(CORALE_EINVAL, 0, "mine");
	assert_int_equal(pthread_create(&thread, NULL, fail_in_a_thread, seen), 0);
	pthread_join(thread, NULL);
	assert_string_equal(seen, "");
	assert_string_equal(log_last_error(), "mine");
	log_open(LOG_WARN, NULL);
}
