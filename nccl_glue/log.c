/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "corale.h"
#include "env.h"

enum { TEXT_BYTES = 1024, PREFIX_BYTES = 160, HOST_BYTES = 64, PATH_BYTES = 512, NO_FILE = -1 };

enum nccl_debug { DEBUG_UNSET, DEBUG_VERSION, DEBUG_WARN, DEBUG_INFO };

/* The process's log, written once by door_log_open. */
static struct {
	int (*device)(void);
	enum nccl_debug debug;
	unsigned subsystems; /* whose INFO lines are printed */
	int core; /* Corale's own INFO and TRACE lines are printed */
	char host[HOST_BYTES];
	char file[PATH_BYTES]; /* of NCCL_DEBUG_FILE; "": none */
} door_log_state = { .subsystems = DOOR_LOG_INIT | DOOR_LOG_BOOTSTRAP | DOOR_LOG_ENV };

/* ---- Where lines go ---- */

static pthread_once_t file_once = PTHREAD_ONCE_INIT;
static int file_fd = NO_FILE;

static void write_to(int fd, const char *kind, const char *before, const char *text)
{
	char line[PREFIX_BYTES + TEXT_BYTES];
	int device = door_log_state.device ? door_log_state.device() : 0;

	if (snprintf(line, sizeof(line), "%s:%ld:%ld [%d] NCCL %s %s%s", door_log_state.host, (long)getpid(),
		     (long)syscall(SYS_gettid), device, kind, before, text) >= 0)
		log_write(fd, line);
}

/* NCCL begins its file anew. The standard streams may lead into a file of the program's, which stays. */
static int may_empty(int fd)
{
	const char *path = door_log_state.file;
	struct stat file;

	return strcmp(path, "/dev/stdout") && strcmp(path, "/dev/stderr") && !fstat(fd, &file) &&
	       S_ISREG(file.st_mode);
}

static void open_file(void)
{
	const char *why_not;
	char text[TEXT_BYTES];

	file_fd = log_open_path(door_log_state.file, &why_not);
	if (file_fd < 0) {
		snprintf(text, sizeof(text),
			 "NCCL_DEBUG_FILE: %.256s can't be used: %s; expected a regular file or FIFO of this "
			 "user, a terminal, /dev/stdout or /dev/stderr",
			 door_log_state.file, why_not);
		write_to(STDERR_FILENO, "WARN", "Corale: ", text);
	} else if (may_empty(file_fd) && ftruncate(file_fd, 0)) {
		write_to(STDERR_FILENO, "WARN",
			 "Corale: ", "the file of NCCL_DEBUG_FILE keeps its old lines");
	}
}

/* Opened by the first line: a process that has nothing to say makes no file. */
static int debug_file(void)
{
	if (door_log_state.file[0])
		pthread_once(&file_once, open_file);
	return file_fd;
}

static int descriptor(enum log_level level)
{
	int fd = log_descriptor();

	if (fd != STDERR_FILENO) /* CORALE_LOG_FILE */
		return fd;
	fd = debug_file();
	if (fd != NO_FILE)
		return fd;
	return level >= LOG_INFO && door_log_state.debug >= DEBUG_INFO ? STDOUT_FILENO : STDERR_FILENO;
}

/* ---- Their shape ---- */

/* log_writer. */
static void write_core_line(enum log_level level, int rank, const char *text)
{
	char before[40];

	if (level >= LOG_INFO && !door_log_state.core)
		return;
	if (rank >= 0)
		snprintf(before, sizeof(before), "Corale: rank %d: ", rank);
	else
		strcpy(before, "Corale: ");
	write_to(descriptor(level),
		 level <= LOG_WARN   ? "WARN"
		 : level == LOG_INFO ? "INFO"
				     : "TRACE",
		 before, text);
}

int door_log_wants_subsystem(unsigned subsystems)
{
	return (door_log_state.subsystems & subsystems) != 0;
}

void door_log(unsigned subsystems, const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list args;
	int n;

	if (!door_log_wants(subsystems))
		return;
	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n >= 0)
		write_to(descriptor(LOG_INFO), "INFO", "", text);
}

/* ---- What the variables say ---- */

static unsigned find_subsystem(const char *name, size_t length)
{
#define NAME(name) #name,
	static const char *const names[] = { DOOR_LOG_SUBSYSTEMS(NAME) };

	for (int i = 0; i < DOOR_LOG_COUNT; i++)
		if (strlen(names[i]) == length && !strncasecmp(names[i], name, length))
			return 1u << i;
	return length == 3 && !strncasecmp(name, "ALL", 3) ? DOOR_LOG_ALL : 0;
}

/* "INIT,NET": these; "^NET,COLL": all but these; "ALL,^NET" as well. Unknown names are passed over; if no name is known the default stays. */
static unsigned read_subsystems(const char *list, unsigned otherwise)
{
	int all_but = *list == '^', known = 0;
	unsigned chosen = all_but ? DOOR_LOG_ALL : 0;

	while (*list) {
		int excludes = *list == '^';
		size_t length = strcspn(list += excludes, ",");
		unsigned bits = find_subsystem(list, length);
		known |= bits != 0;
		chosen = excludes || all_but ? chosen & ~bits : chosen | bits;
		list += length;
		list += *list == ',';
	}
	return known ? chosen : otherwise;
}

static enum nccl_debug read_debug(const char *value)
{
	static const char *const words[] = { "VERSION", "WARN", "ABORT", "INFO", "TRACE" };
	static const enum nccl_debug levels[] = { DEBUG_VERSION, DEBUG_WARN, DEBUG_INFO, DEBUG_INFO,
						  DEBUG_INFO };

	for (size_t i = 0; value && i < sizeof(words) / sizeof(*words); i++)
		if (!strcasecmp(value, words[i]))
			return levels[i];
	return DEBUG_UNSET;
}

static void find_host(char host[HOST_BYTES])
{
	if (gethostname(host, HOST_BYTES - 1) || !host[0])
		strcpy(host, "?");
	host[strcspn(host, ".")] = '\0';
	for (char *c = host; *c; c++)
		if (*c == '%' || *c == '/' || *c == ' ')
			*c = '-';
}

void door_log_open(int (*device)(void))
{
	const char *file = door_env("NCCL_DEBUG_FILE"), *subsystems = door_env("NCCL_DEBUG_SUBSYS");

	door_log_state.device = device;
	door_log_state.debug = read_debug(door_env("NCCL_DEBUG"));
	find_host(door_log_state.host);
	if (file && !log_expand_path(file, door_log_state.host, door_log_state.file, PATH_BYTES))
		door_log_state.file[0] = '\0';
	if (subsystems)
		door_log_state.subsystems = read_subsystems(subsystems, door_log_state.subsystems);
	door_log_state.core = door_env("CORALE_DEBUG") || door_log_state.subsystems & DOOR_LOG_TUNING;
	log_set_writer(write_core_line);
}

/* ---- Lines that people look for ---- */

void door_log_version(int nccl, int cuda)
{
	static atomic_flag printed;
	char text[TEXT_BYTES], with[32] = "";

	if (atomic_flag_test_and_set(&printed))
		return;
	if (cuda)
		snprintf(with, sizeof(with), "+cuda%d.%d", cuda / 1000, cuda % 1000 / 10);
	snprintf(text, sizeof(text), "NCCL version %d.%d.%d%s (Corale %d.%d.%d)", nccl / 10000,
		 nccl / 100 % 100, nccl % 100, with, CORALE_VERSION_MAJOR, CORALE_VERSION_MINOR,
		 CORALE_VERSION_PATCH);
	if (door_log_state.debug == DEBUG_VERSION) /* NCCL opens no file for it */
		log_write(STDOUT_FILENO, text);
	else if (door_log_state.debug == DEBUG_WARN)
		log_write(debug_file() == NO_FILE ? STDOUT_FILENO : debug_file(), text);
	else
		door_log(DOOR_LOG_ALL, "%s", text);
}
