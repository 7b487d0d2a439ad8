/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of NCCL's shape, where they go by NCCL_DEBUG, NCCL_DEBUG_FILE, NCCL_DEBUG_SUBSYS and CORALE_DEBUG, and those that people look for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "base/settings.h"
#include "nccl_glue/env.h"
#include "nccl_glue/init_log.h"
#include "nccl_glue/log.h"

enum { PATIENCE_S = 60, TEXT_BYTES = 16384, NCCL_CODE = 22809, CUDA_CODE = 13000 };

static char out[TEXT_BYTES], err[TEXT_BYTES], file[TEXT_BYTES]; /* what the last process wrote */
static pid_t last;
static char folder[] = "/tmp/corale_nccl_log_XXXXXX", name_out[64], name_err[64];

static int open_folder(void **state)
{
	alarm(PATIENCE_S);
	if (!mkdtemp(folder))
		return -1;
	snprintf(name_out, sizeof(name_out), "%s/out", folder);
	snprintf(name_err, sizeof(name_err), "%s/err", folder);
	return 0;
}

static int close_folder(void **state)
{
	return rmdir(folder);
}

static int device(void)
{
	return 3;
}

static int64_t bus_id(int ordinal)
{
	return ordinal == 3 ? 0x1b000 : 0;
}

static const struct door_device fake = { .bus_id = bus_id };
static struct ncclComm comm = { .rank = 0, .size = 2, .ordinal = 3, .device = &fake },
		       child = { .rank = 0, .size = 1, .device = &fake };

/* One line of each kind. */
static int speak(void)
{
	const struct settings *s;
	const struct door_job init = { .kind = DOOR_INIT },
			      split = { .kind = DOOR_SPLIT, .comm = &comm, .tag = 4, .color = 2, .key = -1 };

	if (door_env_open(device, &s))
		return 1;
	door_log_version(NCCL_CODE, CUDA_CODE);
	door_log_version(NCCL_CODE, CUDA_CODE);
	init_log_line(&comm, &init, "START");
	door_log(DOOR_LOG_INIT | DOOR_LOG_NET, "Using network Socket");
	door_log(DOOR_LOG_INIT | DOOR_LOG_P2P, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM");
	init_log_line(&comm, &init, "COMPLETE");
	init_log_line(&child, &split, "START");
	door_log(DOOR_LOG_COLL, "AllReduce: opCount %x", 0x1f);
	log_line(LOG_INFO, 1, "a plan");
	log_line(LOG_WARN, -1, "a stall");
	return log_error(0, 4, "an error");
}

static void take(const char *path, char text[TEXT_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, TEXT_BYTES - 1);
	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	unlink(path);
}

static int redirect(const char *path, int to)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
	return fd < 0 || dup2(fd, to) < 0;
}

/* Runs speak with these variables, "NAME=value" up to NULL. */
static void run(const char *first, ...)
{
	int status = -1;
	va_list more;

	fflush(NULL);
	last = fork();
	if (!last) {
		clearenv();
		va_start(more, first);
		for (const char *v = first; v; v = va_arg(more, const char *))
			putenv(strdup(v));
		va_end(more);
		_exit(redirect(name_out, STDOUT_FILENO) || redirect(name_err, STDERR_FILENO) ? 2 : speak());
	}
	waitpid(last, &status, 0);
	take(name_out, out);
	take(name_err, err);
	assert_int_equal(status, 0);
}

/* Each line of text has the shape. */
static void expect_shape(const char *text, int lines)
{
	char host[64];
	const char *end;

	gethostname(host, sizeof(host));
	host[strcspn(host, ".")] = '\0';
	for (; (end = strchr(text, '\n')); text = end + 1, lines--) {
		char expected[128];
		int n =
		    snprintf(expected, sizeof(expected), "%s:%d:%d [3] NCCL ", host, (int)last, (int)last);
		assert_memory_equal(text, expected, (size_t)n);
		assert_true(!strncmp(text + n, "INFO ", 5) || !strncmp(text + n, "WARN Corale: ", 13));
	}
	assert_int_equal(lines, 0);
	assert_string_equal(text, "");
}

static void expect_errors(const char *text)
{
	assert_non_null(strstr(text, "[3] NCCL WARN Corale: a stall\n"));
	assert_non_null(strstr(text, "[3] NCCL WARN Corale: rank 4: an error\n"));
}

UNIT_TEST(test_unset)
{
	run(NULL);
	assert_string_equal(out, "");
	expect_shape(err, 2);
	expect_errors(err);
	run("NCCL_DEBUG=garbage", NULL);
	assert_string_equal(out, "");
	expect_shape(err, 2);
}

UNIT_TEST(test_version)
{
	run("NCCL_DEBUG=version", NULL);
	assert_string_equal(out, "NCCL version 2.28.9+cuda13.0 (Corale 0.1.0)\n");
	expect_shape(err, 2);
	run("NCCL_DEBUG=WARN", NULL);
	assert_string_equal(out, "NCCL version 2.28.9+cuda13.0 (Corale 0.1.0)\n");
	expect_shape(err, 2);
}

UNIT_TEST(test_info)
{
	char init[128], split[192];
	const char *const lines[] = {
		"[3] NCCL INFO NCCL_DEBUG set by environment to INFO.\n",
		"[3] NCCL INFO NCCL version 2.28.9+cuda13.0 (Corale 0.1.0)\n",
		init,
		" - Init START\n",
		"[3] NCCL INFO Using network Socket\n",
		"[3] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n",
		init,
		" - Init COMPLETE\n",
		split,
	};
	const char *at = out;

	snprintf(init, sizeof(init),
		 "[3] NCCL INFO ncclCommInitRank comm %p rank 0 nranks 2 cudaDev 3 nvmlDev 3 busId 1b000 "
		 "commId 0x",
		 (void *)&comm);
	snprintf(split, sizeof(split),
		 "[3] NCCL INFO ncclCommSplit comm %p rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 0 parent %p "
		 "splitCount 1 color 2 key -1 - Init START\n",
		 (void *)&child, (void *)&comm);
	run("NCCL_DEBUG=INFO", NULL);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (!(at = strstr(at, lines[i])))
			fail_msg("no line %s in %s", lines[i], out);
	expect_shape(out, 7);
	expect_shape(err, 2);
	expect_errors(err);
}

UNIT_TEST(test_subsystems)
{
	static const char call[] = "NCCL INFO AllReduce: opCount 1f\n";

	run("NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=coll", NULL);
	assert_non_null(strstr(out, call));
	expect_shape(out, 2); /* the version is every subsystem's */
	run("NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=NET,TUNING", NULL);
	assert_non_null(strstr(out, "Using network Socket"));
	assert_non_null(strstr(out, "NCCL INFO Corale: rank 1: a plan\n"));
	assert_null(strstr(out, "AllReduce"));
	assert_null(strstr(out, "Init START"));
	run("NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=ALL", NULL);
	assert_non_null(strstr(out, call));
	assert_non_null(strstr(out, "a plan"));
	assert_non_null(strstr(out, "Init START"));
	run("NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=^INIT,COLL", NULL);
	assert_null(strstr(out, "AllReduce"));
	assert_null(strstr(out, "Init START"));
	assert_non_null(strstr(out, "a plan"));
	run("NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=ALL,^COLL", NULL);
	assert_null(strstr(out, "AllReduce"));
	assert_non_null(strstr(out, "Init START"));
	run("NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=zebra", NULL);
	assert_non_null(strstr(out, "Init START"));
	assert_null(strstr(out, "AllReduce"));
	expect_errors(err); /* a filter holds for INFO only */
}

UNIT_TEST(test_file)
{
	char form[256], path[128], host[64];

	gethostname(host, sizeof(host));
	host[strcspn(host, ".")] = '\0';
	snprintf(form, sizeof(form), "NCCL_DEBUG_FILE=%s/l%%h-%%p%%%%", folder);
	run("NCCL_DEBUG=INFO", form, NULL);
	snprintf(path, sizeof(path), "%s/l%s-%d%%", folder, host, (int)last);
	take(path, file);
	assert_string_equal(out, "");
	assert_string_equal(err, "");
	expect_errors(file);
	expect_shape(file, 10);
	snprintf(form, sizeof(form), "NCCL_DEBUG_FILE=%s/kept", folder);
	for (int i = 0; i < 2; i++) /* the second process begins it anew */
		run("NCCL_DEBUG=WARN", form, NULL);
	snprintf(path, sizeof(path), "%s/kept", folder);
	take(path, file);
	assert_memory_equal(file, "NCCL version 2.28.9", 19);
	expect_shape(strchr(file, '\n') + 1, 2);
	assert_string_equal(out, "");
}

UNIT_TEST(test_file_refused)
{
	run("NCCL_DEBUG=INFO", "NCCL_DEBUG_FILE=/no/such/folder/file", NULL);
	expect_shape(err, 3);
	expect_errors(err);
	assert_non_null(strstr(err, "NCCL_DEBUG_FILE: /no/such/folder/file can't be used: No such file"));
	assert_non_null(strstr(out, "Init COMPLETE"));
	run("NCCL_DEBUG=INFO", "NCCL_DEBUG_FILE=/dev/stderr", NULL);
	assert_string_equal(out, "");
	expect_errors(err);
	assert_non_null(strstr(err, "Init COMPLETE"));
}

/* Corale's own variables come first. */
UNIT_TEST(test_corale_debug)
{
	char form[256], path[128];

	run("NCCL_DEBUG=INFO", "CORALE_DEBUG=error", NULL);
	assert_string_equal(out, "");
	expect_shape(err, 1);
	run("CORALE_DEBUG=info", NULL);
	assert_string_equal(out, "");
	assert_non_null(strstr(err, "NCCL INFO Corale: rank 1: a plan\n"));
	assert_non_null(strstr(err, "Init COMPLETE"));
	snprintf(path, sizeof(path), "%s/corale", folder);
	snprintf(form, sizeof(form), "CORALE_LOG_FILE=%s", path);
	run("NCCL_DEBUG=INFO", form, "NCCL_DEBUG_FILE=/no/such/folder/file", NULL);
	take(path, file);
	expect_errors(file);
	assert_non_null(strstr(file, "Init COMPLETE"));
	assert_string_equal(out, "");
	assert_string_equal(err, "");
}

int main(void)
{
	return unit_run(open_folder, close_folder);
}
