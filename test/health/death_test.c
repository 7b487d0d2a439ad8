/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that die, are stopped, leave, exit, exec or have children, as processes of one host: the others are told within LIMIT_MS, by name, whatever they
 * do meanwhile; and what is no death is no alarm. Each case starts its processes before it uses Corale itself, which it never does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/clock.h"
#include "test/helpers/unit.h"
#include "base/log.h"
#include "base/settings.h"
#include "corale.h"
#include "test/helpers/forked.h"
#include "test/helpers/late.h"
#include "test/helpers/thin.h"

/* A test machine may be busy: the limit is twenty times what was promised, and what is promised is printed. */
enum {
	RANKS = 3,
	VICTIM = 1,
	LIMIT_MS = 2000,
	PROMISED_MS = 100,
	DESTROY_MS = 1000, /* promised of a destroy in exit handlers; the limit is twice that */
	LINGER_MS = 4000,
	SETTLE_MS = 100,
	STOPPED_MS = 1000,
	COUNT = 1000
};

/* What a survivor does meanwhile. */
enum waiting { WAITS_IN_CALL, WAITS_ON_STREAM, WAITS_BY_ASKING, WAITS_AS_READER, CALLS_ON };
enum ending {
	KILLED,
	KILLED_IN_CALLS,
	LEFT_AT_ONCE,
	EXITS,
	EXITS_CALLING, /* an exit handler makes one more call */
	EXITS_TOGETHER, /* every rank destroys in an exit handler that is older than the communicator */
	EXITS_BESIDE_STOPPED, /* the same, but one rank is stopped */
	LINGERS, /* behind the library's end, while the others destroy */
	STOPPED,
	DESTROYS,
	LEAVES_CHILD,
	LEAVES_SPAWNED, /* children that exec: by posix_spawn, vfork, fork */
	LEAVES_VFORKED,
	LEAVES_FORKED,
	LEAVES_UNSEEN, /* children that no fork handler sees, by one of the calls of leave_unseen */
	LEAVES_ENDED, /* a child that has called exit() */
	EXECS,
	IN_PID_NAMESPACE,
	IN_ONE_EACH,
	HAS_NO_STREAMS, /* every rank starts without standard streams, and lives */
	LIVES
};

struct scene {
	const char *name;
	enum ending ending;
	enum waiting waiting;
	size_t touched; /* bytes of the victim's memory */
	int code; /* that the survivors get; 0: all goes well */
	const char *word; /* in the error line */
	int node_size; /* CORALE_NODE_SIZE */
};

static const struct scene scenes[] = {
	{ "killed, others in a call", KILLED, WAITS_IN_CALL, 0, CORALE_EPEER, "has died", 0 },
	{ "killed, others on a stream", KILLED, WAITS_ON_STREAM, 0, CORALE_EPEER, "has died", 0 },
	{ "killed, others ask", KILLED, WAITS_BY_ASKING, 0, CORALE_EPEER, "has died", 0 },
	{ "killed, others wait for it to read", KILLED, WAITS_AS_READER, 0, CORALE_EPEER, "has died", 0 },
	{ "killed in calls of 800 KB", KILLED_IN_CALLS, CALLS_ON, 0, CORALE_EPEER, "has died", 0 },
	{ "killed in calls of 800 KB, on another node", KILLED_IN_CALLS, CALLS_ON, 0, CORALE_EPEER,
	  "has died", 1 },
	{ "killed with 8 GiB of memory", KILLED, WAITS_IN_CALL, (size_t)8 << 30, CORALE_EPEER, "has died",
	  0 },
	{ "_exit", LEFT_AT_ONCE, WAITS_IN_CALL, 0, CORALE_EPEER, "has died", 0 },
	{ "exit without destroy", EXITS, WAITS_IN_CALL, 0, CORALE_EPEER, "exit()", 0 },
	{ "exit, a handler that is older than the communicator calls", EXITS_CALLING, WAITS_IN_CALL, 0, 0,
	  NULL, 0 },
	{ "the same, on another node", EXITS_CALLING, WAITS_IN_CALL, 0, 0, NULL, 1 },
	{ "all destroy in handlers that are older than the communicator, over nodes", EXITS_TOGETHER,
	  WAITS_IN_CALL, 0, 0, NULL, 1 },
	{ "the same, over uneven nodes", EXITS_TOGETHER, WAITS_IN_CALL, 0, 0, NULL, 2 },
	{ "the same, one is stopped", EXITS_BESIDE_STOPPED, WAITS_IN_CALL, 0, 0, NULL, 1 },
	{ "destroyed, then slow to end, on another node", LINGERS, WAITS_IN_CALL, 0, 0, NULL, 1 },
	{ "killed, a forked child lives on", LEAVES_CHILD, WAITS_IN_CALL, 0, CORALE_EPEER, "has died", 0 },
	{ "killed, a spawned child lives on", LEAVES_SPAWNED, WAITS_IN_CALL, 0, CORALE_EPEER, "has died", 0 },
	{ "execs", EXECS, WAITS_IN_CALL, 0, CORALE_EPEER, "has died", 0 },
	{ "killed in a PID namespace", IN_PID_NAMESPACE, WAITS_IN_CALL, 0, CORALE_EPEER, "has died", 0 },
	{ "each the first process of a PID namespace", IN_ONE_EACH, WAITS_IN_CALL, 0, CORALE_EPEER,
	  "has died", 0 },
	{ "killed, on another node", KILLED, WAITS_IN_CALL, 0, CORALE_EPEER, "has died", 1 },
	{ "killed, on another node, others ask", KILLED, WAITS_BY_ASKING, 0, CORALE_EPEER, "has died", 1 },
	{ "killed, a forked child lives on, on another node", LEAVES_CHILD, WAITS_IN_CALL, 0, CORALE_EPEER,
	  "has died", 1 },
	{ "killed, a spawned child lives on, on another node", LEAVES_SPAWNED, WAITS_IN_CALL, 0, CORALE_EPEER,
	  "has died", 1 },
	{ "killed, a vforked child lives on, on another node", LEAVES_VFORKED, WAITS_BY_ASKING, 0,
	  CORALE_EPEER, "has died", 1 },
	{ "killed, a forked child that called exec lives on, on another node", LEAVES_FORKED, WAITS_IN_CALL,
	  0, CORALE_EPEER, "has died", 1 },
	{ "killed, children that no fork handler saw live on, on another node", LEAVES_UNSEEN, WAITS_IN_CALL,
	  0, CORALE_EPEER, "has died", 1 },
	{ "the same, others ask, on uneven nodes", LEAVES_UNSEEN, WAITS_BY_ASKING, 0, CORALE_EPEER,
	  "has died", 2 },
	{ "killed after a child has ended, on another node", LEAVES_ENDED, WAITS_IN_CALL, 0, CORALE_EPEER,
	  "has died", 1 },
	{ "execs, on another node", EXECS, WAITS_IN_CALL, 0, CORALE_EPEER, "has died", 1 },
	{ "stopped for a second, on another node", STOPPED, WAITS_IN_CALL, 0, 0, NULL, 1 },
	{ "stopped for a second", STOPPED, WAITS_IN_CALL, 0, 0, NULL, 0 },
	{ "started without standard streams", HAS_NO_STREAMS, WAITS_IN_CALL, 0, 0, NULL, 0 },
	{ "started without standard streams, on another node", HAS_NO_STREAMS, WAITS_IN_CALL, 0, 0, NULL, 1 },
	{ "descriptors", LIVES, WAITS_IN_CALL, 0, 0, NULL, 0 },
	{ "descriptors, on another node", LIVES, WAITS_IN_CALL, 0, 0, NULL, 1 },
	{ "destroyed, then gone", DESTROYS, WAITS_BY_ASKING, 0, 0, NULL, 0 },
};

struct shared {
	_Atomic int64_t died_ns;
	_Atomic int ready, faults, late, destroyed;
	pthread_barrier_t barrier; /* of the ranks that live */
};

struct rank {
	int rank, size;
	int sockets[RANKS]; /* to each other rank */
	struct shared *shared;
};

static void fault(struct rank *r, const char *format, ...)
{
	char text[700];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "# rank %d: %s\n", r->rank, text);
	atomic_fetch_add(&r->shared->faults, 1);
}

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	const struct rank *r = ctx;
	return forked_gather(r->sockets, r->rank, r->size, in, bytes, out);
}

static corale_comm *join(struct rank *r)
{
	corale_bootstrap bootstrap = { .rank = r->rank, .size = r->size, .ctx = r, .allgather = allgather };
	corale_comm *comm = NULL;
	int ret = corale_comm_create(&bootstrap, NULL, &comm);
	if (ret)
		fault(r, "corale_comm_create: %s", corale_strerror(ret));
	return comm;
}

static int reduce(corale_comm *comm, corale_stream *stream)
{
	static int32_t mine[COUNT], sum[COUNT];
	return corale_all_reduce(mine, sum, COUNT, CORALE_INT32, CORALE_SUM, comm, stream);
}

static _Atomic int calls_made;

/* Until one fails: its code. */
static int call_on(corale_comm *comm)
{
	enum { LARGE = 200000 };
	static float mine[LARGE], sum[LARGE];
	int ret = 0;
	for (; !ret; calls_made++)
		ret = corale_all_reduce(mine, sum, LARGE, CORALE_FLOAT32, CORALE_SUM, comm, NULL);
	return ret == CORALE_ECOMM ? corale_comm_async_error(comm) : ret; /* it failed between two calls */
}

/* ---- The victim ---- */

/* Under a sanitizer an eighth: how long the system takes to free it says nothing new there, and to touch it takes 20 s. */
static void touch(size_t bytes)
{
	bytes = thin_step() > 1 ? bytes / 8 : bytes;
	size_t have = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
	bytes = bytes < have / 3 ? bytes : have / 3;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return;
	madvise(memory, bytes, MADV_HUGEPAGE);
	for (size_t at = 0; at < bytes; at += 4096)
		memory[at] = 1;
}

static void leave_child(void)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, 0);
		alarm(10);
		for (;;)
			pause();
	}
}

/* When all connections have carried messages: UCX 1.13 ends processes whose peer dies before (an assertion of its own). */
static void *kill_soon(void *shared)
{
	while (calls_made < 20)
		clock_sleep_ms(1);
	clock_sleep_ms(SETTLE_MS);
	atomic_store(&((struct shared *)shared)->died_ns, clock_ns());
	kill(getpid(), SIGKILL);
	return NULL;
}

static void die_in_calls(struct rank *r, corale_comm *comm)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, kill_soon, r->shared))
		abort();
	call_on(comm);
	pause(); /* never: nothing fails but by its death */
}

/* It lives longer than the others may take. */
static char *const sleeper[] = { (char *)"sleep", (char *)"4", NULL };

static void run_sleeper(void)
{
	execvp(sleeper[0], sleeper);
	_exit(127);
}

/* What a program does not expect of a child that ends: an exit handler of the library or of UCX may neither hang nor spoil its files. */
static void end_child(struct rank *r)
{
	int status = -1;
	pid_t child = fork();
	if (child == 0) {
		FILE *file = tmpfile();
		alarm(5);
		exit(!file || fputs("text", file) < 0);
	}
	if (waitpid(child, &status, 0) != child || status)
		fault(r, "a child that calls exit() ended with status %x", (unsigned)status);
}

static int sleep_on(void *unused)
{
	prctl(PR_SET_PDEATHSIG, 0);
	clock_sleep_ms(LINGER_MS);
	_exit(0);
}

/* Of glibc's _Fork, of the system call alone, and one that shares memory and descriptors. */
static void leave_unseen(void)
{
	static char stack[1 << 16];
	if (!_Fork() || !syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL))
		sleep_on(NULL);
	clone(sleep_on, stack + sizeof(stack), CLONE_VM | CLONE_FILES | SIGCHLD, NULL);
}

static void leave(struct rank *r, enum ending ending)
{
	pid_t child = 0;
	switch (ending) {
	case LEAVES_CHILD:
		leave_child();
		break;
	case LEAVES_SPAWNED:
		if (posix_spawnp(&child, sleeper[0], NULL, NULL, sleeper, environ))
			fault(r, "posix_spawnp: %s", strerror(errno));
		break;
	case LEAVES_VFORKED:
		if (vfork() == 0)
			run_sleeper();
		break;
	case LEAVES_FORKED:
		if (fork() == 0)
			run_sleeper();
		break;
	case LEAVES_UNSEEN:
		leave_unseen();
		break;
	case LEAVES_ENDED:
		end_child(r);
		break;
	default:
		break;
	}
}

/* Of the victim, for its exit handler. */
static struct {
	struct rank *rank;
	corale_comm *comm;
} late;

static void call_late(void)
{
	clock_sleep_ms(SETTLE_MS); /* long enough for the others to see that this process is in exit() */
	int ret = reduce(late.comm, NULL);
	if (ret)
		fault(late.rank, "a call in an exit handler: %s", corale_comm_last_error(late.comm));
	corale_comm_destroy(late.comm);
}

static void destroy_timed(struct rank *r, corale_comm *comm)
{
	const int64_t start = clock_ns();
	corale_comm_destroy(comm);
	const double ms = (double)(clock_ns() - start) * 1e-6;
	if (!(ms < 2 * DESTROY_MS))
		fault(r, "the destroy took %.0f ms of at most %d", ms, 2 * DESTROY_MS);
	fprintf(stderr, "# rank %d destroyed in %.1f ms (promised: %d)\n", r->rank, ms, DESTROY_MS);
	atomic_fetch_add(&r->shared->destroyed, 1);
}

/* One has other handlers first, and one is in main() meanwhile. As MPI_Finalize in such a handler does, it stays until all have come. */
static void destroy_late(void)
{
	const int64_t until = clock_ns() + 30 * 1000000000ll;
	if (late.rank->rank > VICTIM)
		clock_sleep_ms(2 * DESTROY_MS + SETTLE_MS);
	destroy_timed(late.rank, late.comm);
	while (atomic_load(&late.rank->shared->destroyed) < RANKS && clock_ns() < until)
		clock_sleep_ms(1);
}

static int lingers;

static void linger(void)
{
	if (lingers)
		clock_sleep_ms(LINGER_MS);
}

static void register_linger(void)
{
	atexit(linger);
}

/* Before the loader registers the ends of libraries, behind which it so comes. */
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = register_linger;

static void end(struct rank *r, const struct scene *s, corale_comm *comm)
{
	if (s->touched)
		touch(s->touched);
	if (s->ending == KILLED_IN_CALLS)
		die_in_calls(r, comm);
	atomic_store(&r->shared->ready, 1);
	clock_sleep_ms(SETTLE_MS);
	leave(r, s->ending);
	atomic_store(&r->shared->died_ns, clock_ns());
	switch (s->ending) {
	case LEFT_AT_ONCE:
	case IN_ONE_EACH:
		_exit(0);
	case EXITS_CALLING:
	case EXITS:
		exit(0);
	case EXECS:
		run_sleeper();
		break;
	case STOPPED: /* its parent lets it go on */
		kill(getpid(), SIGSTOP);
		if (reduce(comm, NULL))
			fault(r, "the call after a stop: %s", corale_comm_last_error(comm));
		break;
	case LINGERS:
		lingers = 1;
		break;
	case DESTROYS:
		break;
	default:
		kill(getpid(), SIGKILL);
	}
	corale_comm_destroy(comm);
}

/* ---- The others ---- */

static int wait_for_victim(struct rank *r, const struct scene *s, corale_comm *comm)
{
	static int32_t large[4 << 20];
	corale_stream *stream = NULL;
	int ret;
	if (s->ending == LINGERS) {
		clock_sleep_ms(3 * SETTLE_MS + r->rank * SETTLE_MS);
		return 0;
	}
	switch (s->waiting) {
	case WAITS_IN_CALL:
		return reduce(comm, NULL);
	case CALLS_ON:
		return call_on(comm);
	case WAITS_AS_READER: /* a message by reference, or more than a window holds */
		if (r->rank == 0)
			return corale_send(large, sizeof(large) / sizeof(*large), CORALE_INT32, VICTIM, comm,
					   NULL);
		return reduce(comm, NULL);
	case WAITS_ON_STREAM:
		corale_stream_create(&stream);
		ret = reduce(comm, stream);
		ret = ret ? ret : corale_stream_synchronize(stream);
		corale_stream_destroy(stream);
		return ret;
	default:
		for (int64_t until = clock_ns() + (s->code ? 5 : 1) * 1000000000ll; clock_ns() < until;
		     clock_sleep_ms(1))
			if ((ret = corale_comm_async_error(comm)))
				return ret;
		return 0;
	}
}

static void survive(struct rank *r, const struct scene *s, corale_comm *comm)
{
	int ret = wait_for_victim(r, s, comm);
	double ms = (double)(clock_ns() - atomic_load(&r->shared->died_ns)) * 1e-6;
	if (ret != s->code)
		fault(r, "got %s, expected %s; %s", corale_strerror(ret), corale_strerror(s->code),
		      corale_comm_last_error(comm));
	if (s->code) {
		const char *text = corale_comm_last_error(comm);
		if (!strstr(text, "rank 1 (process ") || !strstr(text, s->word))
			fault(r, "\"%s\" should name rank 1, its process and \"%s\"", text, s->word);
		if (!(ms < LIMIT_MS)) {
			atomic_fetch_add(&r->shared->late, 1);
			fault(r, "told after %.0f ms of at most %d", ms, LIMIT_MS);
		}
		fprintf(stderr, "# rank %d was told after %.1f ms (promised: %d)\n", r->rank, ms,
			PROMISED_MS);
		ret = reduce(comm, NULL);
		if (ret != CORALE_ECOMM)
			fault(r, "a later call: got %s", corale_strerror(ret));
	}
	destroy_timed(r, comm);
}

/* ---- Without standard streams ---- */

/* Nothing can be read or written there, as before. What the library or UCX had there would take the log's lines. */
static void check_streams(struct rank *r)
{
	char byte = 0;
	for (int fd = 0; fd < 3; fd++)
		if (read(fd, &byte, 1) >= 0 || errno != EBADF || write(fd, &byte, 1) >= 0 || errno != EBADF)
			fault(r, "descriptor %d leads somewhere", fd);
}

/* ---- Descriptors ---- */

enum { MOST_FDS = 256 };

static void note_descriptors(char is_open[MOST_FDS])
{
	for (int fd = 0; fd < MOST_FDS; fd++)
		is_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* One that exec would leave open, though the program has not opened it; -1: none. UCX 1.13 forgets one of /dev/null. */
static int find_left_open(const char is_programs[MOST_FDS])
{
	struct stat file;
	for (int fd = 0; fd < MOST_FDS; fd++)
		if (!is_programs[fd] && fcntl(fd, F_GETFD) == 0 && !fstat(fd, &file) &&
		    !S_ISCHR(file.st_mode))
			return fd;
	return -1;
}

/* What a child that only forks has of them: no socket, and the program's own. */
static int check_child(const char is_programs[MOST_FDS], const int ends[2])
{
	struct stat file;
	char byte = 0;
	for (int fd = 0; fd < MOST_FDS; fd++)
		if (!is_programs[fd] && !fstat(fd, &file) && S_ISSOCK(file.st_mode))
			return 1;
	return write(ends[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 1 || byte != 'x';
}

/* The program's own stay as they are, also an epoll and a pipe that it opens later. */
static void check_descriptors(struct rank *r, char is_programs[MOST_FDS])
{
	struct epoll_event event = { .events = EPOLLIN };
	const int64_t until = clock_ns() + LIMIT_MS * 1000000ll;
	int own[3], left, status = -1;
	if (pipe(own) || (own[2] = epoll_create1(0)) < 0 || epoll_ctl(own[2], EPOLL_CTL_ADD, own[0], &event))
		fault(r, "a pipe and an epoll: %s", strerror(errno));
	for (int i = 0; i < 3; i++)
		is_programs[own[i]] = 1;
	while ((left = find_left_open(is_programs)) >= 0 && clock_ns() < until)
		clock_sleep_ms(1);
	if (left >= 0)
		fault(r, "exec would leave descriptor %d open", left);
	pid_t child = fork();
	if (child == 0)
		_exit(check_child(is_programs, own));
	if (waitpid(child, &status, 0) != child || status)
		fault(r, "a forked child has descriptors of the library, or lacks those of the program");
	for (int i = 0; i < 3; i++) {
		if (fcntl(own[i], F_GETFD))
			fault(r, "descriptor %d of the program has changed", own[i]);
		close(own[i]);
	}
}

static int live(struct rank *r, const struct scene *s)
{
	char is_open[MOST_FDS];
	note_descriptors(is_open);
	corale_comm *comm = join(r);
	for (int i = 0; comm && i < 3; i++)
		if (reduce(comm, NULL))
			fault(r, "call %d: %s", i, corale_comm_last_error(comm));
	if (s->ending == HAS_NO_STREAMS)
		check_streams(r);
	else
		check_descriptors(r, is_open);
	corale_comm_destroy(comm);
	return 0;
}

static int run_rank(struct rank *r, const struct scene *s)
{
	if (s->ending == EXITS_CALLING && r->rank == VICTIM)
		atexit(call_late);
	if (s->ending == EXITS_TOGETHER || s->ending == EXITS_BESIDE_STOPPED)
		atexit(destroy_late);
	if (s->ending >= HAS_NO_STREAMS)
		return live(r, s);
	corale_comm *comm = join(r);
	if (!comm)
		return 1;
	if (reduce(comm, NULL))
		fault(r, "a call while all live: %s", corale_comm_last_error(comm));
	late.rank = r;
	late.comm = comm;
	if (s->ending == EXITS_TOGETHER || (s->ending == EXITS_BESIDE_STOPPED && r->rank != VICTIM)) {
		clock_sleep_ms((s->ending == EXITS_TOGETHER) == (r->rank == VICTIM) ? 3 * SETTLE_MS : 0);
		return 0;
	}
	if (s->ending == EXITS_BESIDE_STOPPED) {
		kill(getpid(), SIGSTOP);
		return 0;
	}
	if (r->rank == VICTIM)
		end(r, s, comm);
	else
		survive(r, s, comm);
	return 0;
}

/* ---- The parent ---- */

static pid_t start_rank(struct rank *r, const struct scene *s)
{
	int apart = (s->ending == IN_PID_NAMESPACE && r->rank == VICTIM) || s->ending == IN_ONE_EACH;
	pid_t child = fork();
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int fd = 0; fd < 3 && s->ending == HAS_NO_STREAMS; fd++)
		close(fd);
	if (apart) {
		if (unshare(CLONE_NEWPID))
			_exit(99);
		int others =
		    s->ending == IN_PID_NAMESPACE; /* the first process of a namespace can't kill itself */
		if (fork() || (others && fork())) {
			int status = 0;
			wait(&status);
			_exit(status != 0);
		}
	}
	exit(run_rank(r, s));
}

static int may_make_pid_namespaces(void)
{
	int status;
	pid_t child = fork();
	if (child == 0)
		_exit(unshare(CLONE_NEWPID) != 0);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

static int has_network(void)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		const struct settings *settings;
		_exit(settings_get(&settings) || !forked_has_ucx());
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

static void *share(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int play(const struct scene *s)
{
	struct rank ranks[RANKS];
	struct shared *shared = share(sizeof(*shared));
	pid_t pids[RANKS];
	for (int r = 0; r < RANKS; r++)
		ranks[r] = (struct rank){ .rank = r, .size = RANKS, .shared = shared };
	for (int a = 0; a < RANKS; a++)
		for (int b = a + 1; b < RANKS; b++) {
			int ends[2];
			if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
				return 1;
			ranks[a].sockets[b] = ends[0];
			ranks[b].sockets[a] = ends[1];
		}
	for (int r = 0; r < RANKS; r++)
		pids[r] = start_rank(&ranks[r], s);
	if (s->ending == STOPPED || s->ending == EXITS_BESIDE_STOPPED) {
		int status;
		waitpid(pids[VICTIM], &status, WUNTRACED);
		clock_sleep_ms(s->ending == STOPPED ? STOPPED_MS : LINGER_MS);
		kill(pids[VICTIM], SIGCONT);
	}
	int faults = 0;
	for (int r = 0; r < RANKS; r++) {
		int status = 0;
		waitpid(pids[r], &status, 0);
		faults += r != VICTIM && status;
		if (r != VICTIM && status)
			fprintf(stderr, "# rank %d ended with status %x\n", r, (unsigned)status);
	}
	late_tell(faults + atomic_load(&shared->faults), atomic_load(&shared->late));
	return faults + atomic_load(&shared->faults);
}

/* Settings are read once a process, so every scene has one of its own. */
static int play_apart(const struct scene *s)
{
	char node_size[16];
	int status;
	pid_t child = fork();
	if (child == 0) {
		setenv("CORALE_DEBUG", s->ending == HAS_NO_STREAMS ? "info" : "none", 1);
		setenv("CORALE_TIMEOUT", "120", 1);
		snprintf(node_size, sizeof(node_size), "%d", s->node_size);
		setenv("CORALE_NODE_SIZE", node_size, 1);
		if (s->ending == KILLED_IN_CALLS) /* the same of puts over tcp, when a peer dies */
			setenv("CORALE_UCX_MESSAGE", "am", 1);
		alarm(180);
		exit(play(s) != 0);
	}
	return waitpid(child, &status, 0) != child || status;
}

static void run_scene(void **state)
{
	const struct scene *s = *state;
	if ((s->ending == IN_PID_NAMESPACE || s->ending == IN_ONE_EACH) && !may_make_pid_namespaces())
		skip();
	assert_int_equal(play_apart(s), 0);
}

/* ---- The watch thread's life ---- */

static int refuse_threads;

/* In front of the C library's. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	union {
		void *symbol;
		create *function;
	} real = { dlsym(RTLD_NEXT, "pthread_create") };
	return refuse_threads ? EAGAIN : real.function(thread, attr, run, arg);
}

/* Runs body as rank 0 of two processes. The other one does so, too (by_both), or creates, meets it in a call if there is a communicator, and destroys. */
static int with_peer(int (*body)(struct rank *r), int by_both)
{
	struct shared *shared = share(sizeof(*shared));
	struct rank ranks[2] = { { .rank = 0, .size = 2, .shared = shared },
				 { .rank = 1, .size = 2, .shared = shared } };
	int ends[2], status;
	setenv("CORALE_DEBUG", "none", 1);
	setenv("CORALE_TIMEOUT", "20", 1);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	ranks[0].sockets[1] = ends[0];
	ranks[1].sockets[0] = ends[1];
	pid_t child = fork();
	if (child == 0 && by_both) {
		alarm(30);
		exit(body(&ranks[1]));
	}
	if (child == 0) {
		corale_bootstrap bootstrap = {
			.rank = 1, .size = 2, .ctx = &ranks[1], .allgather = allgather
		};
		corale_comm *comm = NULL;
		alarm(30);
		if (!corale_comm_create(&bootstrap, NULL, &comm))
			reduce(comm, NULL);
		corale_comm_destroy(comm);
		exit(0);
	}
	int faults = body(&ranks[0]);
	return waitpid(child, &status, 0) != child || status || faults + atomic_load(&shared->faults);
}

static int without_thread(struct rank *r)
{
	corale_bootstrap bootstrap = { .rank = 0, .size = 2, .ctx = r, .allgather = allgather };
	corale_comm *comm = NULL;
	refuse_threads = 1;
	int ret = corale_comm_create(&bootstrap, NULL, &comm);
	if (ret != CORALE_ESYSTEM)
		fault(r, "creation without a thread: got %s", corale_strerror(ret));
	return 0;
}

/* Nothing was started: the next call is the first one. */
static int stream_without_thread(struct rank *r)
{
	corale_stream *stream = NULL;
	corale_comm *comm = join(r);
	corale_stream_create(&stream);
	refuse_threads = 1;
	int ret = reduce(comm, stream);
	refuse_threads = 0;
	if (ret != CORALE_ESYSTEM)
		fault(r, "a call on a stream without a thread: got %s", corale_strerror(ret));
	ret = reduce(comm, NULL);
	if (ret)
		fault(r, "the next call: got %s", corale_strerror(ret));
	corale_stream_destroy(stream);
	corale_comm_destroy(comm);
	return 0;
}

/* What a child asks for that is refused: a fault says which was not. */
static int expect_refused(const char *call, int refused)
{
	call += strlen("corale_"); /* which messages do without */
	if (!refused || !strstr(log_last_error(), call))
		fprintf(stderr, "# %s in a forked child: got through, or \"%s\"\n", call, log_last_error());
	return !refused || !strstr(log_last_error(), call);
}

#define EXPECT_ENOTSUP(call) expect_refused(name_of(#call), (call) == CORALE_ENOTSUP)
#define EXPECT_ERROR(call) expect_refused(name_of(#call), (call) != 0)

static const char *name_of(const char *call)
{
	static char name[64];
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(call, "("), call);
	return name;
}

struct child_handles {
	corale_comm *comm;
	corale_stream *stream;
	corale_inproc *group;
	corale_plan *plan;
};

/* Every function of corale.h that does not only answer from constants. */
static int use_in_child(struct rank *r, struct child_handles h)
{
	static int32_t mine[4], got[4];
	static size_t n[2] = { 1, 1 }, at[2] = { 0, 1 };
	corale_bootstrap alone = { .rank = 0, .size = 1, .ctx = r, .allgather = allgather };
	corale_comm *comm = NULL;
	corale_stream *stream = NULL;
	corale_inproc *group = NULL;
	corale_plan *plan = NULL;
	corale_op op = CORALE_SUM;
	void *memory = NULL;
	int bad = EXPECT_ENOTSUP(corale_comm_create(&alone, NULL, &comm)) |
		  EXPECT_ENOTSUP(corale_inproc_create(1, &group)) |
		  EXPECT_ENOTSUP(corale_comm_create_inproc(h.group, 0, NULL, &comm)) |
		  EXPECT_ENOTSUP(corale_stream_create(&stream)) |
		  EXPECT_ENOTSUP(corale_stream_synchronize(h.stream)) |
		  EXPECT_ENOTSUP(corale_stream_query(h.stream)) | EXPECT_ENOTSUP(corale_group_begin()) |
		  EXPECT_ENOTSUP(corale_group_end()) |
		  EXPECT_ENOTSUP(corale_plan_run(h.plan, mine, got, NULL));
	bad |= EXPECT_ERROR(corale_comm_split(h.comm, 0, 0, &comm)) |
	       EXPECT_ERROR(corale_comm_abort(h.comm)) | EXPECT_ERROR(corale_comm_async_error(h.comm)) |
	       EXPECT_ERROR(corale_op_create_premul_sum(mine, CORALE_INT32, h.comm, &op)) |
	       EXPECT_ERROR(corale_op_create_premul_sum_device(mine, CORALE_INT32, h.comm, &op)) |
	       EXPECT_ERROR(corale_op_destroy(op, h.comm)) |
	       EXPECT_ERROR(corale_mem_alloc(h.comm, 8, &memory)) |
	       EXPECT_ERROR(corale_mem_free(h.comm, mine)) |
	       EXPECT_ERROR(corale_mem_register(h.comm, mine, 8, &memory)) |
	       EXPECT_ERROR(corale_mem_deregister(h.comm, mine)) |
	       EXPECT_ERROR(
		   corale_plan_create(CORALE_ALL_REDUCE, 1, CORALE_INT32, CORALE_SUM, 0, h.comm, &plan));
	bad |= EXPECT_ERROR(corale_all_reduce(mine, got, 1, CORALE_INT32, CORALE_SUM, h.comm, NULL)) |
	       EXPECT_ERROR(corale_all_gather(mine, got, 1, CORALE_INT32, h.comm, NULL)) |
	       EXPECT_ERROR(corale_reduce_scatter(mine, got, 1, CORALE_INT32, CORALE_SUM, h.comm, NULL)) |
	       EXPECT_ERROR(corale_broadcast(mine, got, 1, CORALE_INT32, 0, h.comm, NULL)) |
	       EXPECT_ERROR(corale_reduce(mine, got, 1, CORALE_INT32, CORALE_SUM, 0, h.comm, NULL)) |
	       EXPECT_ERROR(corale_gather(mine, got, 1, CORALE_INT32, 0, h.comm, NULL)) |
	       EXPECT_ERROR(corale_scatter(mine, got, 1, CORALE_INT32, 0, h.comm, NULL)) |
	       EXPECT_ERROR(corale_all_to_all(mine, got, 1, CORALE_INT32, h.comm, NULL)) |
	       EXPECT_ERROR(corale_all_to_all_v(mine, n, at, got, n, at, CORALE_INT32, h.comm, NULL)) |
	       EXPECT_ERROR(corale_send(mine, 1, CORALE_INT32, 1, h.comm, NULL)) |
	       EXPECT_ERROR(corale_recv(got, 1, CORALE_INT32, 1, h.comm, NULL)) |
	       EXPECT_ERROR(corale_barrier(h.comm, h.stream));
	corale_comm_size(h.comm);
	corale_comm_memory_used(h.comm);
	corale_plan_destroy(h.plan);
	corale_inproc_destroy(h.group);
	corale_stream_destroy(h.stream);
	corale_comm_destroy(h.comm);
	return bad;
}

/* A child must be refused by name and must not hang, whatever it calls; its parent goes on. */
static int forked_child(struct rank *r)
{
	struct child_handles h = { .comm = join(r) };
	int status;
	corale_stream_create(&h.stream);
	corale_inproc_create(1, &h.group);
	corale_plan_create(CORALE_ALL_REDUCE, COUNT, CORALE_INT32, CORALE_SUM, 0, h.comm, &h.plan);
	pid_t child = fork();
	if (child == 0) {
		alarm(10);
		exit(use_in_child(r, h));
	}
	if (waitpid(child, &status, 0) != child || status)
		fault(r, "the forked child ended with status %x", (unsigned)status);
	if (reduce(h.comm, NULL))
		fault(r, "a call of the parent: %s", corale_comm_last_error(h.comm));
	corale_plan_destroy(h.plan);
	corale_inproc_destroy(h.group);
	corale_stream_destroy(h.stream);
	corale_comm_destroy(h.comm);
	return 0;
}

/* ---- Creations that fail ---- */

static int rounds_left;

static int allgather_until(void *ctx, const void *in, size_t bytes, void *out)
{
	return --rounds_left < 0 || allgather(ctx, in, bytes, out);
}

/* Whatever a creation had begun when its bootstrap failed: a child of the process ends as it should. */
static int fail_and_fork(struct rank *r)
{
	corale_bootstrap b = { .rank = r->rank, .size = 2, .ctx = r, .allgather = allgather_until };
	corale_comm *comm = NULL;
	for (int rounds = 1; !comm; rounds++) {
		int status = -1, ret;
		rounds_left = rounds;
		ret = corale_comm_create(&b, NULL, &comm);
		pid_t child = fork();
		if (child == 0)
			exit(EXPECT_ENOTSUP(corale_comm_create(&b, NULL, &comm)));
		if (waitpid(child, &status, 0) != child || status)
			fault(r, "a child after %d rounds (%s) ended with status %x", rounds,
			      corale_strerror(ret), (unsigned)status);
	}
	if (reduce(comm, NULL))
		fault(r, "a call: %s", corale_comm_last_error(comm));
	corale_comm_destroy(comm);
	return 0;
}

/* Shared memory counts as a file: the creation fails with a line that says so, where the kernel would end the process. */
static int limit_files(struct rank *r)
{
	const struct rlimit limit = { 1 << 20, 1 << 20 };
	corale_bootstrap b = { .rank = r->rank, .size = 2, .ctx = r, .allgather = allgather };
	corale_comm *comm = NULL;
	setrlimit(RLIMIT_FSIZE, &limit);
	const int ret = corale_comm_create(&b, NULL, &comm);
	if (ret == CORALE_OK && reduce(comm, NULL))
		fault(r, "a call: %s", corale_comm_last_error(comm));
	if (ret != CORALE_OK && (ret != CORALE_ENOMEM || !strstr(log_last_error(), "ulimit -f")))
		fault(r, "creation: %s, %s", corale_strerror(ret), log_last_error());
	corale_comm_destroy(comm);
	return 0;
}

/* An idle thread costs next to nothing: below 0.1 % of a core. A busy machine has charged it with 1.4 %; one that spins takes 100. */
static int idle(struct rank *r)
{
	corale_comm *comm = join(r);
	struct rusage before, after;
	getrusage(RUSAGE_SELF, &before);
	clock_sleep_ms(3000);
	getrusage(RUSAGE_SELF, &after);
	double used = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
			       before.ru_stime.tv_sec) +
		      1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec +
				      after.ru_stime.tv_usec - before.ru_stime.tv_usec);
	fprintf(stderr, "# an idle communicator took %.3f %% of a core\n", used / 3 * 100);
	if (used / 3 > 0.1)
		fault(r, "an idle communicator took %.2f %% of a core", used / 3 * 100);
	if (reduce(comm, NULL))
		fault(r, "a call: %s", corale_comm_last_error(comm));
	corale_comm_destroy(comm);
	return 0;
}

static const struct lone {
	const char *name;
	int (*body)(struct rank *r);
	int by_both, over_nodes;
} lone[] = {
	{ "no thread to watch", without_thread, 0, 0 },
	{ "a forked child", forked_child, 0, 0 },
	{ "an idle communicator", idle, 0, 0 },
	{ "no thread for a stream", stream_without_thread, 1, 0 },
	{ "a creation fails, then a fork", fail_and_fork, 1, 0 },
	{ "a creation fails, then a fork, over nodes", fail_and_fork, 1, 1 },
	{ "a limit of file sizes", limit_files, 1, 0 },
	{ "a limit of file sizes, over nodes", limit_files, 1, 1 },
};

static int apart(const struct lone *l)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		alarm(60);
		setenv("CORALE_NODE_SIZE", l->over_nodes ? "1" : "0", 1);
		exit(with_peer(l->body, l->by_both));
	}
	return waitpid(child, &status, 0) != child || status;
}

static void run_lone(void **state)
{
	assert_int_equal(apart(*state), 0);
}

enum { SCENES = sizeof(scenes) / sizeof(scenes[0]), LONE = sizeof(lone) / sizeof(lone[0]) };

/* death_test [NAME]: the cases of this name only; it may have * and ?. */
int main(int argc, char **argv)
{
	struct CMUnitTest tests[SCENES + LONE];
	const int over_nodes = has_network();
	size_t n = 0;
	for (int i = 0; i < LONE; i++)
		if (over_nodes || !lone[i].over_nodes)
			tests[n++] = (struct CMUnitTest){ lone[i].name, run_lone, NULL, NULL,
							  (void *)(uintptr_t)&lone[i] };
	for (int i = 0; i < SCENES; i++)
		if (over_nodes || !scenes[i].node_size)
			tests[n++] = (struct CMUnitTest){ scenes[i].name, run_scene, NULL, NULL,
							  (void *)(uintptr_t)&scenes[i] };
	if (!over_nodes)
		printf("# nothing over nodes: there is no UCX in this build\n");
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
