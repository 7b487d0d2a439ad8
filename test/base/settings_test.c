/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings table: defaults, every kind of value, what is refused and how, unknown names, random text. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "corale.h"
#include "base/log.h"
#include "base/settings.h"

static int parse(const char *entry, struct settings *s)
{
	char *environment[] = { (char *)"PATH=/bin", (char *)entry, NULL };
	return settings_parse(environment, s);
}

UNIT_TEST(test_defaults)
{
	struct settings s;
	char *none[] = { NULL }, value[300];

	assert_int_equal(settings_parse(none, &s), 0);
	assert_int_equal(s.debug, LOG_WARN);
	assert_true(s.timeout == 600);
	assert_int_equal(s.memory_cap, (size_t)4 << 30);
	assert_int_equal(s.slot_bytes, 1 << 20);
	assert_int_equal(s.slots, 8);
	assert_int_equal(s.chunk_bytes, 0);
	assert_int_equal(s.reference, SETTINGS_AUTO);
	assert_string_equal(s.transport, "auto");
	assert_string_equal(s.algo, "");
	assert_true(s.spin_us == -1);
	assert_int_equal(s.cta_policy, SETTINGS_CTA_AUTO);
	assert_int_equal(s.nccl_device, SETTINGS_NCCL_AUTO);
	assert_int_equal(s.nccl_version, 22809);
	assert_true(s.nccl_timeout == 0 && s.nccl_init_timeout == 1800);
	assert_int_equal(s.nccl_window, (size_t)28 << 20);
	for (int i = 0; i < settings_count(); i++) {
		assert_int_equal(settings_value(&s, i, value, sizeof(value)), SETTINGS_DEFAULT);
		assert_string_equal(value, settings_row(i)->fallback);
		assert_true(strlen(settings_row(i)->help) > 10);
	}
	assert_null(settings_row(-1));
	assert_null(settings_row(settings_count()));
}

UNIT_TEST(test_values)
{
	struct settings s;

	assert_int_equal(parse("CORALE_TIMEOUT=2.25", &s), 0);
	assert_true(s.timeout == 2.25);
	assert_int_equal(parse("CORALE_SPIN_US=-1", &s), 0);
	assert_true(s.spin_us == -1);
	assert_int_equal(parse("CORALE_MEMORY_CAP=3g", &s), 0);
	assert_int_equal(s.memory_cap, (size_t)3 << 30);
	assert_int_equal(parse("CORALE_SLOT_BYTES=1K", &s), 0);
	assert_int_equal(s.slot_bytes, 1024);
	assert_int_equal(parse("CORALE_REFERENCE_BYTES=2M", &s), 0);
	assert_int_equal(s.reference_bytes, 2 << 20);
	assert_int_equal(parse("CORALE_REPRODUCIBLE=Yes", &s), 0);
	assert_int_equal(s.reproducible, 1);
	assert_int_equal(parse("CORALE_REPRODUCIBLE=1", &s), 0);
	assert_int_equal(s.reproducible, 1);
	assert_int_equal(parse("CORALE_REPRODUCIBLE=0", &s), 0);
	assert_int_equal(s.reproducible, 0);
	assert_int_equal(parse("CORALE_TRANSPORT=MPI", &s), 0);
	assert_string_equal(s.transport, "MPI");
	assert_int_equal(parse("CORALE_DEBUG=trace", &s), 0);
	assert_int_equal(s.debug, LOG_TRACE);
	assert_int_equal(parse("CORALE_REFERENCE=no", &s), 0);
	assert_int_equal(s.reference, SETTINGS_NO);
	assert_int_equal(parse("CORALE_CTA_POLICY=auto", &s), 0);
	assert_int_equal(s.cta_policy, SETTINGS_CTA_AUTO);
	assert_int_equal(parse("CORALE_CTA_POLICY=Efficient", &s), 0);
	assert_int_equal(s.cta_policy, SETTINGS_CTA_EFFICIENT);
	assert_int_equal(parse("CORALE_CTA_POLICY=zero", &s), 0);
	assert_int_equal(s.cta_policy, SETTINGS_CTA_ZERO);
	assert_int_equal(parse("CORALE_ALGO=all_reduce:ring,broadcast:flat", &s), 0);
	assert_string_equal(s.algo, "all_reduce:ring,broadcast:flat");
	assert_int_equal(parse("CORALE_NCCL_DEVICE=HOST", &s), 0);
	assert_int_equal(s.nccl_device, SETTINGS_NCCL_HOST);
	assert_int_equal(parse("CORALE_SLOTS=", &s), 0); /* empty is unset */
	assert_int_equal(s.slots, 8);
}

/* What is printed is accepted and means the same. */
UNIT_TEST(test_printed_values_are_accepted)
{
	static const char *const entries[] = {
		"CORALE_TIMEOUT=0.000000001", "CORALE_TIMEOUT=1000000000",
		"CORALE_MEMORY_CAP=1048577",  "CORALE_MEMORY_CAP=7T",
		"CORALE_CHUNK_BYTES=96K",     "CORALE_REFERENCE_BYTES=0",
		"CORALE_SPIN_US=12.5",        "CORALE_NET_DEVICES=mlx5_0:1,eth0",
		"CORALE_CTA_POLICY=efficient"
	};

	for (size_t e = 0; e < sizeof(entries) / sizeof(*entries); e++) {
		struct settings s, again;
		char value[300], entry[400];
		assert_int_equal(parse(entries[e], &s), 0);
		for (int i = 0; i < settings_count(); i++) {
			if (settings_value(&s, i, value, sizeof(value)) == SETTINGS_DEFAULT)
				continue;
			snprintf(entry, sizeof(entry), "%s=%s", settings_row(i)->name, value);
			assert_int_equal(parse(entry, &again), 0);
			assert_memory_equal(&s, &again, sizeof(s));
		}
	}
}

UNIT_TEST(test_malformed)
{
	static const char *const entries[] = {
		"CORALE_TIMEOUT=-1",
		"CORALE_TIMEOUT=1e3",
		"CORALE_TIMEOUT=10s",
		"CORALE_TIMEOUT=1.",
		"CORALE_TIMEOUT= 5",
		"CORALE_TIMEOUT=nan",
		"CORALE_TIMEOUT=.5",
		"CORALE_TIMEOUT=1000000001",
		"CORALE_SPIN_US=-2",
		"CORALE_SPIN_US=-1.0",
		"CORALE_MEMORY_CAP=0x100000",
		"CORALE_MEMORY_CAP=4GB",
		"CORALE_MEMORY_CAP=99999999999999999999",
		"CORALE_MEMORY_CAP=99999999T",
		"CORALE_MEMORY_CAP=1K",
		"CORALE_MEMORY_CAP=G",
		"CORALE_SLOT_BYTES=0",
		"CORALE_SLOT_BYTES=1000",
		"CORALE_SLOT_BYTES=65M",
		"CORALE_CHUNK_BYTES=100",
		"CORALE_MAX_CHANNELS=17",
		"CORALE_SLOT_BYTES=256",
		"CORALE_CHUNK_BYTES=64",
		"CORALE_SLOTS=1",
		"CORALE_SLOTS=65",
		"CORALE_SLOTS=4K",
		"CORALE_SLOTS=-4",
		"CORALE_SLOTS=+4",
		"CORALE_NODE_SIZE=2.0",
		"CORALE_NODE_SIZE=two",
		"CORALE_REPRODUCIBLE=true",
		"CORALE_REPRODUCIBLE=2",
		"CORALE_REFERENCE=maybe",
		"CORALE_UCX_MESSAGE=rndv",
		"CORALE_CTA_POLICY=few",
		"CORALE_CTA_POLICY=default",
		"CORALE_DEBUG=5",
		"CORALE_NCCL_DEVICE=gpu",
		"CORALE_NCCL_VERSION=2.28.9",
		"CORALE_NCCL_VERSION=100000",
		"CORALE_NCCL_WINDOW=0",
	};

	log_open(LOG_NONE, NULL);
	for (size_t e = 0; e < sizeof(entries) / sizeof(*entries); e++) {
		struct settings s, untouched;
		char name[64];
		memset(&s, 0x5a, sizeof(s));
		untouched = s;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(entries[e], "="), entries[e]);
		if (parse(entries[e], &s) != CORALE_ESETTING)
			fail_msg("%s was accepted", entries[e]);
		assert_memory_equal(&s, &untouched, sizeof(s));
		assert_non_null(strstr(log_last_error(), entries[e]));
		assert_non_null(strstr(log_last_error(), "expected"));
	}
	log_open(LOG_WARN, NULL);
}

UNIT_TEST(test_longest_text)
{
	struct settings s;
	char entry[400] = "CORALE_ALGO=";
	size_t length = strlen(entry);

	memset(entry + length, 'a', 256);
	entry[length + 255] = '\0';
	assert_int_equal(parse(entry, &s), 0);
	assert_int_equal(strlen(s.algo), 255);
	strcat(entry, "a");
	log_open(LOG_NONE, NULL);
	assert_int_equal(parse(entry, &s), CORALE_ESETTING);
	assert_non_null(strstr(log_last_error(), "at most 255 characters"));
	log_open(LOG_WARN, NULL);
}

UNIT_TEST(test_unknown_names)
{
	const char *environment[] = { "CORALE_TIMEOUT=3",   "CORALE_TIMOUT=3", "PATH=/bin", "CORALE_SLOT=4",
				      "CORALE_ZEBRA_FARM=", "CORALE_",         "CORALE",    NULL };
	static const char *const unknown[] = { "CORALE_TIMOUT", "CORALE_SLOT", "CORALE_ZEBRA_FARM",
					       "CORALE_" };
	static const char *const near[] = { "CORALE_TIMEOUT", "CORALE_SLOTS", NULL, NULL };
	size_t position = 0;
	char name[64];
	const char *nearest;

	for (int i = 0; i < 4; i++) {
		assert_int_equal(settings_next_unknown((char *const *)environment, &position, name, &nearest),
				 1);
		assert_string_equal(name, unknown[i]);
		if (near[i])
			assert_string_equal(nearest, near[i]);
		else
			assert_null(nearest);
	}
	assert_int_equal(settings_next_unknown((char *const *)environment, &position, name, &nearest), 0);
}

/* Random text after real and invented names: never a crash, and what is accepted prints and reads back. */
UNIT_TEST(test_random_text)
{
	static const char alphabet[] = "0123456789.-+KMGTkmgt,:^=aeinosuyxABORT_ \t\n\x7f\xff%s";
	uint64_t random = 99;
	int accepted = 0;

	log_open(LOG_NONE, NULL);
	for (int round = 0; round < 200000; round++) {
		char entries[3][160], *environment[4] = { entries[0], entries[1], entries[2], NULL },
				      name[64], value[300];
		struct settings s;
		const char *nearest;
		size_t position = 0;
		for (int e = 0; e < 3; e++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			const char *known =
			    settings_row((int)((random >> 40) % (unsigned)settings_count()))->name;
			size_t at = (size_t)snprintf(entries[e], 64, "%s%s", known, random >> 60 ? "=" : "");
			size_t length = (random >> 33) % (random >> 63 ? 6 : 90);
			for (size_t i = 0; i < length; i++) {
				random = random * 6364136223846793005u + 1442695040888963407u;
				entries[e][at++] = alphabet[(random >> 33) % (sizeof(alphabet) - 1)];
			}
			entries[e][at] = '\0';
		}
		while (settings_next_unknown(environment, &position, name, &nearest))
			assert_memory_equal(name, "CORALE_", 7);
		if (settings_parse(environment, &s))
			continue;
		accepted++;
		for (int i = 0; i < settings_count(); i++)
			settings_value(&s, i, value, sizeof(value));
	}
	log_open(LOG_WARN, NULL);
	assert_true(accepted > 100);
}

static void *get(void *arg)
{
	const struct settings *s = NULL;
	int ret = settings_get(&s);
	*(const void **)arg = ret ? NULL : s;
	return NULL;
}

/* In a process of its own: settings are read once. Returns 0 if 4 threads got one struct, 1 if none got any. */
static int child(const char *log_file, const char *entry)
{
	const void *got[4];
	pthread_t threads[4];

	setenv("CORALE_LOG_FILE", log_file, 1);
	putenv((char *)entry);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, get, &got[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 1; i < 4; i++)
		if (got[i] != got[0])
			return 2;
	return !got[0];
}

static int run_child(const char *entry, char *log, size_t bytes)
{
	char path[] = "/tmp/corale_settings_test_XXXXXX";
	int fd = mkstemp(path), status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(child(path, entry));
	waitpid(pid, &status, 0);
	ssize_t n = read(fd, log, bytes - 1);
	log[n > 0 ? n : 0] = '\0';
	close(fd);
	unlink(path);
	return status;
}

UNIT_TEST(test_process_settings)
{
	char log[4096];

	assert_int_equal(run_child("CORALE_SLOTS=16", log, sizeof(log)), 0);
	assert_string_equal(log, "");
	assert_int_equal(run_child("CORALE_SLTOS=16", log, sizeof(log)), 0);
	char *line = strstr(log, "CORALE_SLTOS is not a setting");
	assert_non_null(line);
	assert_non_null(strstr(line, "did you mean CORALE_SLOTS?"));
	assert_null(strstr(line + 10, "CORALE_SLTOS")); /* said once */
	int status = run_child("CORALE_SLOTS=0", log, sizeof(log));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* ---- Offers: values for rows that the environment does not set ---- */

/* In a process of its own. Returns the number of the first thing that is wrong. */
static int offering_child(const char *log_file)
{
	const struct settings *s;
	char value[64];
	int slots = -1;

	setenv("CORALE_LOG_FILE", log_file, 1);
	setenv("CORALE_RAILS", "2", 1);
	if (settings_offer("CORALE_NO_SUCH_NAME", "1") != CORALE_EINVAL)
		return 1;
	if (settings_offer("CORALE_SLOTS", "many") != CORALE_ESETTING ||
	    settings_offer("CORALE_MEMORY_CAP", "1K") != CORALE_ESETTING)
		return 2;
	if (settings_offer("CORALE_SLOTS", "16") || settings_offer("CORALE_RAILS", "5") ||
	    settings_offer("CORALE_DEBUG", "info") || settings_offer("CORALE_PROTO", "LL") ||
	    settings_offer("CORALE_PROTO", ""))
		return 3;
	if (settings_get(&s) || getenv("CORALE_SLOTS") || getenv("CORALE_DEBUG"))
		return 4;
	if (s->slots != 16 || s->rails != 2 || s->debug != LOG_INFO || s->memory_cap != (size_t)4 << 30 ||
	    strcmp(s->proto, "auto"))
		return 5;
	for (int i = 0; i < settings_count(); i++)
		if (!strcmp(settings_row(i)->name, "CORALE_SLOTS"))
			slots = (int)settings_value(s, i, value, sizeof(value));
	if (slots != SETTINGS_OFFER || settings_offer("CORALE_SLOTS", "32") != CORALE_ECOMM || s->slots != 16)
		return 6;
	return 0;
}

UNIT_TEST(test_offers)
{
	char path[] = "/tmp/corale_settings_test_XXXXXX", log[4096];
	int fd = mkstemp(path), status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(offering_child(path));
	waitpid(pid, &status, 0);
	ssize_t n = read(fd, log, sizeof(log) - 1);
	log[n > 0 ? n : 0] = '\0';
	close(fd);
	unlink(path);
	assert_int_equal(status, 0);
	char *line = strstr(log, "INFO");
	assert_non_null(line);
	assert_non_null(
	    strstr(line, "the value 1K for CORALE_MEMORY_CAP is malformed and is not used: expected"));
	assert_null(strstr(log, "CORALE_SLOTS")); /* the last offer counts */
	assert_string_equal(strchr(line, '\n'), "\n"); /* and nothing else is said */
}

/* ---- A program with more rights than who started it ---- */

/* In the copy below: 0 if settings are the defaults, 1 if they are read, 2 if the system has given no more rights (nosuid, say). */
static int privileged(void)
{
	const struct settings *s;

	if (!getauxval(AT_SECURE))
		return 2;
	return settings_get(&s) || s->slots != 8 || s->from_environment || s->log_file[0];
}

static int copy_program(int to)
{
	char bytes[1 << 16];
	ssize_t n = -1;
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	while (from >= 0 && (n = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)n) != n)
			return 1;
	close(from);
	return n != 0;
}

/* Only root can make a program that is another user's; for others this is left out. */
UNIT_TEST(test_privileged)
{
	enum { NOBODY = 65534 };
	char path[] = "/tmp/corale_settings_test_XXXXXX", log[] = "/tmp/corale_settings_log_XXXXXX";
	int fd = mkstemp(path), log_fd = mkstemp(log), status = -1;

	assert_true(fd >= 0 && log_fd >= 0 && copy_program(fd) == 0);
	int made = geteuid() == 0 && !fchown(fd, NOBODY, NOBODY) && !fchmod(fd, 04755);
	close(fd);
	pid_t pid = made ? fork() : -1;
	if (!pid) {
		setenv("CORALE_SLOTS", "16", 1);
		setenv("CORALE_LOG_FILE", log, 1);
		execl(path, path, "privileged", (char *)NULL);
		_exit(3);
	}
	if (made)
		waitpid(pid, &status, 0);
	unlink(path);
	unlink(log);
	close(log_fd);
	if (!made || (WIFEXITED(status) && WEXITSTATUS(status) == 2))
		print_message("# left out: the test can't make a program with more rights here\n");
	else
		assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		_exit(privileged()); /* such a process can't look for leaks of its own */

	return unit_run(NULL, NULL);
}
