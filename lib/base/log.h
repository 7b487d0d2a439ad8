/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one way to speak: a line on stderr (or CORALE_LOG_FILE) with level, host, rank.
 * An error is logged once, where its cause is known; callers only pass the code on.
 */
#ifndef LOG_H
#define LOG_H

#include <stddef.h>

/* libcorale_mpi speaks by libcorale's log: what it needs is exported, under names no program has. */
#define LOG_EXPORT(name) __asm__("corale_private_" name) __attribute__((visibility("default")))

enum log_level { LOG_NONE, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_TRACE };

/* Lines above this level cost one comparison. Set once from CORALE_DEBUG. */
extern enum log_level log_level LOG_EXPORT("log_level");

/*
 * One line: "corale: ERROR HOST rank 3: text". rank < 0: none is known yet.
 * Thread-safe; the line is written by one write(2). The text of the last LOG_ERROR line of the
 * calling thread is kept for log_last_error.
 */
void log_line(enum log_level level, int rank, const char *format, ...) LOG_EXPORT("log_line")
    __attribute__((format(printf, 3, 4)));

/* The same, but only the first time in this process for each flag: what is said of every communicator alike. said: a static of
 * the function that speaks. */
void log_once(_Atomic int *said, enum log_level level, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Logs an error line and returns code, so that a caller can `return log_error(CORALE_EINVAL, rank, ...)`. */
int log_error(int code, int rank, const char *format, ...) LOG_EXPORT("log_error")
    __attribute__((format(printf, 3, 4)));

/* The calling thread's last error line without its prefix, "" if none. */
const char *log_last_error(void);

/* Sets level and file (NULL: stderr); "%p" in file becomes the process id. A file that others could read, stop or redirect is not
 * used: no link, nothing but a regular file or FIFO of this user or a terminal; then one warning says so on stderr. */
void log_open(enum log_level level, const char *file);

/*
 * A library whose users know other lines gives them its own shape: writer gets each line that the level lets pass, of any thread, and
 * writes it by log_write. NULL: the shape of this file. Set before other threads log.
 */
typedef void log_writer(enum log_level level, int rank, const char *text);
void log_set_writer(log_writer *writer);

/* One line, by one write(2): cut where it is too long, without control characters, with a newline. */
void log_write(int fd, const char *line);

/* Where log_open has led lines: its file's descriptor, or that of stderr. */
int log_descriptor(void);

/* form with "%p" as the process id and, where there is a host_name, "%h" as that and "%%" as "%"; 0: it does not fit. */
int log_expand_path(const char *form, const char *host_name, char *path, size_t bytes);

/* A descriptor for lines at path, under log_open's rules; -1: *why_not says why. A file that was there is added to. */
int log_open_path(const char *path, const char **why_not);

#endif
