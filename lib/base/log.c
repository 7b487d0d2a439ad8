/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "descriptor.h"
#include "signals.h"
#include "text.h"

enum { LINE_BYTES = 1024, LAST_BYTES = 640 };

enum log_level log_level = LOG_WARN;

static int log_fd = STDERR_FILENO;
static log_writer *own_writer;
static _Thread_local char last_error[LAST_BYTES];
static pthread_once_t host_once = PTHREAD_ONCE_INIT;
static char host[64];

static void find_host(void)
{
	if (gethostname(host, sizeof(host) - 1) || !host[0])
		strcpy(host, "?");
	host[strcspn(host, ".")] = '\0';
}

/* Terminals and log readers see one line per event, whatever a value in the text contained. */
static void flatten(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = ' ';
}

/* Where nobody reads any more the line is lost, and the process goes on. */
static void write_all(int fd, const char *line, size_t bytes)
{
	int saved = errno;
	struct signals_held held;
	signals_hold(&held);
	while (bytes) {
		ssize_t n = write(fd, line, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break; /* nowhere left to complain to */
		line += n;
		bytes -= (size_t)n;
	}
	signals_drop(&held);
	errno = saved;
}

void log_write(int fd, const char *line)
{
	char copy[LINE_BYTES];
	size_t bytes = strlen(line);
	int cut = bytes > sizeof(copy) - 2;

	if (cut)
		bytes = sizeof(copy) - 2;
	memcpy(copy, line, bytes);
	if (cut)
		memcpy(copy + bytes - 3, "...", 3);
	copy[bytes] = '\0';
	flatten(copy);
	copy[bytes++] = '\n';
	write_all(fd, copy, bytes);
}

static void emit(enum log_level level, int rank, const char *text)
{
	static const char *const names[] = { "", "ERROR", "WARN", "INFO", "TRACE" };
	char line[LINE_BYTES + 1], who[24] = "";

	pthread_once(&host_once, find_host);
	if (rank >= 0)
		snprintf(who, sizeof(who), " rank %d", rank);
	if (snprintf(line, sizeof(line), "corale: %s %s%s: %s", names[level], host, who, text) >= 0)
		log_write(log_fd, line);
}

void log_set_writer(log_writer *writer)
{
	own_writer = writer;
}

int log_descriptor(void)
{
	return log_fd;
}

static void log_text(enum log_level level, int rank, const char *format, va_list args)
{
	char text[LINE_BYTES];

	if (text_format_args(text, sizeof(text), format, args) < 0)
		return;
	if (level == LOG_ERROR) {
		snprintf(last_error, sizeof(last_error), "%.*s", (int)sizeof(last_error) - 1, text);
		flatten(last_error);
	}
	if (level <= log_level)
		(own_writer ? own_writer : emit)(level, rank, text);
}

void log_line(enum log_level level, int rank, const char *format, ...)
{
	va_list args;

	if (level == LOG_NONE || (level > log_level && level != LOG_ERROR))
		return;
	va_start(args, format);
	log_text(level, rank, format, args);
	va_end(args);
}

void log_once(_Atomic int *said, enum log_level level, int rank, const char *format, ...)
{
	va_list args;

	if (level > log_level || atomic_exchange(said, 1))
		return;
	va_start(args, format);
	log_text(level, rank, format, args);
	va_end(args);
}

int log_error(int code, int rank, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_text(LOG_ERROR, rank, format, args);
	va_end(args);
	return code;
}

const char *log_last_error(void)
{
	return last_error;
}

int log_expand_path(const char *form, const char *host_name, char *path, size_t bytes)
{
	size_t at = 0;

	for (; *form; form++) {
		char piece[64] = { *form, '\0' };
		const char mark = *form == '%' ? form[1] : '\0';
		if (mark == 'p')
			snprintf(piece, sizeof(piece), "%ld", (long)getpid());
		else if (host_name && mark == 'h')
			snprintf(piece, sizeof(piece), "%s", host_name);
		form += mark == 'p' || (host_name && (mark == 'h' || mark == '%'));
		const size_t length = strlen(piece);
		if (at + length >= bytes)
			return 0;
		memcpy(path + at, piece, length + 1);
		at += length;
	}
	return at > 0;
}

/* Why lines do not go where fd leads: others could read them, or stop or redirect the process. NULL: they do. */
static const char *refuse(int fd)
{
	struct stat file;

	if (fstat(fd, &file))
		return strerror(errno);
	if (S_ISCHR(file.st_mode) && (isatty(fd) || file.st_rdev == makedev(1, 3))) /* /dev/null */
		return NULL;
	if (!S_ISREG(file.st_mode) && !S_ISFIFO(file.st_mode))
		return "it is neither a regular file, a FIFO nor a terminal";
	if (file.st_uid != geteuid())
		return "it belongs to another user";
	return NULL;
}

static const char *open_failure(void)
{
	if (errno == ELOOP)
		return "it is a symbolic link";
	if (errno == ENXIO)
		return "it is neither a regular file, a FIFO nor a terminal"; /* a socket */
	return strerror(errno);
}

/* A FIFO that nobody reads yet is opened for both, and keeps lines until somebody does. */
static int open_path(const char *path)
{
	const int flags = O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	int fd = descriptor_create(path, flags | O_WRONLY | O_CREAT, 0600);
	return fd < 0 && errno == ENXIO ? descriptor_open(path, flags | O_RDWR) : fd;
}

static int is_fifo(int fd)
{
	struct stat file;
	return !fstat(fd, &file) && S_ISFIFO(file.st_mode);
}

int log_open_path(const char *path, const char **why_not)
{
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	if (!strcmp(path, "/dev/stdout")) {
		*why_not = "it is closed";
		return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
	int fd = open_path(path);
	*why_not = fd < 0 ? open_failure() : refuse(fd);
	if (*why_not && fd >= 0)
		close(fd);
	if (*why_not)
		return -1;
	if (!is_fifo(fd)) /* which loses lines when it is full, rather than stop the process */
		fcntl(fd, F_SETFL, O_APPEND); /* a terminal that is slow loses no line */
	return fd;
}

void log_open(enum log_level level, const char *file)
{
	const char *why_not = "its name is too long";
	char path[512];
	int fd = STDERR_FILENO;

	log_level = level;
	if (file && file[0]) {
		fd = log_expand_path(file, NULL, path, sizeof(path)) ? log_open_path(path, &why_not) : -1;
		if (fd < 0) {
			fd = STDERR_FILENO;
			log_line(LOG_WARN, -1,
				 "CORALE_LOG_FILE=%s can't be used: %s; expected a regular file or FIFO of "
				 "this user, a terminal, /dev/stdout or /dev/stderr; logging to stderr",
				 file, why_not);
		}
	}
	if (log_fd != STDERR_FILENO && log_fd != fd)
		close(log_fd);
	log_fd = fd;
}
