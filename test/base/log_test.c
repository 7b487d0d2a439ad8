/* SPDX-License-Identifier: BSD-3-Clause */
/* CORALE_LOG_FILE: which files are written, and which are refused with a warning on stderr, at once. Lines of a writer's shape. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"

enum { PATIENCE_S = 20 };

static char folder[] = "/tmp/corale_log_test_XXXXXX", path[64], other[64];

static int open_folder(void **state)
{
	alarm(PATIENCE_S); /* nothing here may wait */
	signal(SIGPIPE, SIG_DFL); /* a harness may have ignored it */
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/log", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	return 0;
}

static int close_folder(void **state)
{
	unlink(path);
	unlink(other);
	return rmdir(folder);
}

static void read_file(const char *name, char *text, size_t bytes)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t n = read(fd, text, bytes - 1);
	assert_true(n >= 0);
	text[n] = '\0';
	close(fd);
}

/* What a line of the log leaves on descriptor fd, which leads into a file meanwhile. */
static void log_beside(const char *file, int fd, char *text, size_t bytes)
{
	char name[] = "/tmp/corale_log_text_XXXXXX";
	int kept = dup(fd), to = mkstemp(name);
	assert_true(kept >= 0 && to >= 0);
	fflush(NULL);
	dup2(to, fd);
	log_open(LOG_WARN, file);
	log_line(LOG_WARN, 2, "a line");
	log_open(LOG_WARN, NULL);
	dup2(kept, fd);
	close(kept);
	close(to);
	read_file(name, text, bytes);
	unlink(name);
}

/* One warning that names the setting, the file and the reason, and then the line itself. */
static void expect_refusal(const char *reason)
{
	char text[4096];
	log_beside(path, STDERR_FILENO, text, sizeof(text));
	assert_non_null(strstr(text, "CORALE_LOG_FILE="));
	assert_non_null(strstr(text, path));
	assert_non_null(strstr(text, reason));
	char *line = strchr(text, '\n');
	assert_non_null(line);
	assert_non_null(strstr(line, "rank 2: a line\n"));
}

static void expect_line(const char *name)
{
	char text[4096];
	log_open(LOG_WARN, path);
	log_line(LOG_WARN, 2, "a line");
	log_open(LOG_WARN, NULL);
	read_file(name, text, sizeof(text));
	assert_non_null(strstr(text, "rank 2: a line\n"));
}

UNIT_TEST(test_new_file)
{
	struct stat file;
	mode_t mask = umask(0);
	expect_line(path);
	umask(mask);
	assert_int_equal(stat(path, &file), 0);
	assert_int_equal(file.st_mode & 07777, 0600);
	unlink(path);
}

UNIT_TEST(test_link)
{
	struct stat file;
	int fd = open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(symlink(other, path), 0);
	expect_refusal("symbolic link");
	assert_int_equal(stat(other, &file), 0);
	assert_int_equal(file.st_size, 0);
	unlink(other);
	expect_refusal("symbolic link"); /* and makes none at its end */
	assert_int_equal(access(other, F_OK), -1);
	unlink(path);
}

static void read_fifo(char *text, size_t bytes)
{
	int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader >= 0);
	ssize_t n = read(reader, text, bytes - 1);
	assert_true(n >= 0);
	text[n] = '\0';
	close(reader);
}

UNIT_TEST(test_fifo)
{
	char text[4096], line[1000];
	assert_int_equal(mkfifo(path, 0600), 0);
	log_open(LOG_WARN, path); /* nobody reads yet */
	log_line(LOG_WARN, 2, "a line");
	read_fifo(text, sizeof(text));
	assert_non_null(strstr(text, "rank 2: a line\n"));
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	for (int i = 0; i < 200; i++) /* more than it holds, and nobody reads any more */
		log_line(LOG_WARN, 2, "%s", line);
	log_open(LOG_WARN, NULL);
	int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader >= 0);
	log_open(LOG_WARN, path); /* the reader leaves before the line is written */
	close(reader);
	log_line(LOG_WARN, 2, "a line");
	log_open(LOG_WARN, NULL);
	unlink(path);
}

UNIT_TEST(test_socket)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	expect_refusal("regular file");
	close(fd);
	unlink(path);
}

UNIT_TEST(test_folder)
{
	assert_int_equal(mkdir(path, 0700), 0);
	expect_refusal("directory");
	rmdir(path);
}

/* Only root can make one, and could write it. */
UNIT_TEST(test_file_of_another_user)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
	if (fchown(fd, 65534, (gid_t)-1))
		print_message("# left out: only root can make another user's file\n");
	else
		expect_refusal("another user");
	close(fd);
	unlink(path);
}

UNIT_TEST(test_standard_streams)
{
	char text[4096];
	log_beside("/dev/stdout", STDOUT_FILENO, text, sizeof(text));
	assert_non_null(strstr(text, "rank 2: a line\n"));
	log_beside("/dev/stderr", STDERR_FILENO, text, sizeof(text));
	assert_non_null(strstr(text, "rank 2: a line\n"));
	assert_null(strstr(text, "CORALE_LOG_FILE"));
	log_beside("/dev/null", STDERR_FILENO, text, sizeof(text));
	assert_string_equal(text, "");
}

UNIT_TEST(test_terminal)
{
	char text[256] = "";
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || grantpt(fd) || unlockpt(fd)) {
		print_message("# left out: there are no terminals here\n");
		return;
	}
	log_open(LOG_WARN, ptsname(fd));
	log_line(LOG_WARN, 2, "a line");
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "rank 2: a line"));
	log_open(LOG_WARN, NULL);
	close(fd);
}

/* ---- Lines of another shape ---- */

static void shout(enum log_level level, int rank, const char *text)
{
	char line[3000];
	snprintf(line, sizeof(line), "level %d of %d\t%s", (int)level, rank, text);
	log_write(log_descriptor(), line);
}

UNIT_TEST(test_writer)
{
	char text[4096], name[] = "/tmp/corale_log_text_XXXXXX", expected[1100];
	int fd = mkstemp(name);
	log_open(LOG_WARN, name);
	log_set_writer(shout);
	assert_int_equal(log_error(-7, 3, "an %s", "error"), -7);
	log_line(LOG_INFO, 3, "below the level");
	log_line(LOG_WARN, -1, "two\nlines");
	log_set_writer(NULL);
	log_line(LOG_WARN, 4, "a line");
	log_open(LOG_WARN, NULL);
	read_file(name, text, sizeof(text));
	snprintf(expected, sizeof(expected),
		 "level %d of 3 an error\nlevel %d of -1 two lines\ncorale: WARN ", LOG_ERROR, LOG_WARN);
	assert_memory_equal(text, expected, strlen(expected));
	assert_non_null(strstr(text, "rank 4: a line\n"));
	assert_string_equal(log_last_error(), "an error");
	close(fd);
	unlink(name);
}

/* A line is cut at 1,023 characters, says so, and ends. */
UNIT_TEST(test_long_line)
{
	char text[4096], line[3000], name[] = "/tmp/corale_log_text_XXXXXX";
	int fd = mkstemp(name);
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	log_write(fd, line);
	read_file(name, text, sizeof(text));
	assert_int_equal(strlen(text), 1023);
	assert_string_equal(text + 1023 - 5, "x...\n");
	close(fd);
	unlink(name);
}

/* Where nobody reads, or the file would be too large: the line is lost, and signals that are the program's own stay. */
static void lose_line(int fd)
{
	sigset_t pending;
	log_write(fd, "a line");
	log_write(fd, "a line"); /* the second one finds the pipe broken */
	sigpending(&pending);
	assert_false(sigismember(&pending, SIGPIPE) || sigismember(&pending, SIGXFSZ));
	close(fd);
}

UNIT_TEST(test_nobody_reads)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	lose_line(ends[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	close(ends[0]);
	lose_line(ends[1]);
}

UNIT_TEST(test_file_limit)
{
	struct rlimit old, limit;
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 4;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	lose_line(fd);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	unlink(path);
}

/* A signal that waited before is the program's. */
UNIT_TEST(test_own_signal_stays)
{
	const struct timespec at_once = { 0, 0 };
	int ends[2];
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGPIPE);
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	log_write(ends[1], "a line");
	close(ends[1]);
	assert_int_equal(sigtimedwait(&set, NULL, &at_once), SIGPIPE);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int main(void)
{
	return unit_run(open_folder, close_folder);
}
