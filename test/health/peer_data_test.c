/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What processes of the node write for each other is bounded before it is used: headers, abort words, windows, greetings. Each
 * nonsense is an error that names it, not a crash. Settings are read once a process: cases with ranks run this program again.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "state/comm.h"
#include "comm/hello.h"
#include "base/log.h"
#include "test/helpers/team.h"

enum { RANKS = 2, COUNT = 20, WINDOW_BYTES = 1 << 16 };

/* ---- Headers ---- */

struct header_lie {
	const char *name;
	size_t count; /* of the true message's 32-bit elements */
	uint64_t kind, place;
};

/* Places beside no message's own would stay unseen where the bytes there happen to be mapped. */
static const struct header_lie header_lies[] = {
	{ "a payload far behind its queue", COUNT, WINDOW_SLOT, (uint64_t)1 << 40 },
	{ "a payload in front of its queue", COUNT, WINDOW_SLOT, (uint64_t)0 - 64 },
	{ "a payload that ends behind its queue", COUNT, WINDOW_SLOT, 8u * 4096 - 4 },
	{ "a payload that no header line holds", COUNT, WINDOW_INLINED, 0 },
	{ "a kind that there is not", COUNT, 77, 0 },
};

/* The one message that lies in a queue of a rank's window to another. */
static struct window_header *find_message(const struct comm *from, int to)
{
	struct host_engine *e = (struct host_engine *)(uintptr_t)&from->engine;
	for (int ring = 0; ring < PLAN_MAX_QUEUES; ring++) {
		struct host_out *out = host_out(e, to, 0, ring);
		if (out->sent == 1)
			return &out->headers[0];
	}
	return NULL;
}

static void lie_in_header(struct team_member *m)
{
	const struct header_lie *lie = m->arg;
	int32_t data[COUNT] = { 1 };
	if (m->rank == 1) {
		team_expect(m, corale_send(data, lie->count, CORALE_INT32, 0, m->comm, NULL), 0, "send");
		struct window_header *header = find_message(comm_get(m->comm, "test"), 0);
		if (!header)
			team_fault(m, "there is no message in the window");
		if (header) {
			header->bytes_kind = (header->bytes_kind & ~(uint64_t)0xff) | lie->kind;
			if (lie->kind == WINDOW_SLOT)
				header->offset = lie->place;
		}
	}
	team_barrier(m);
	if (m->rank == 0) {
		team_expect(m, corale_recv(data, lie->count, CORALE_INT32, 1, m->comm, NULL),
			    CORALE_EINTERNAL, "recv");
		const char *said = corale_comm_last_error(m->comm);
		if (!strstr(said, "a message of rank 1") || !strstr(said, "80 bytes"))
			team_fault(m, "\"%s\" should name rank 1 and 80 bytes", said);
	}
	team_barrier(m);
}

/* ---- Abort words ---- */

static const uint64_t words[] = {
	1, /* rank 0, for no reason */
	(uint64_t)7 << 32, /* no rank */
	(uint64_t)7 << 32 | (RANKS + 1), /* a rank that there is not */
	(uint64_t)7 << 32 | 0x7fffffff,
	(uint64_t)14 << 32 | 1, /* a code that there is not */
	(uint64_t)0xffffffff << 32 | 1, /* a success */
	UINT64_MAX,
};

static void lie_in_word(struct team_member *m)
{
	const uint64_t *word = m->arg;
	struct comm *comm = comm_get(m->comm, "test");
	struct window_control *control = comm->engine.windows[comm->engine.local];
	char expected[32];
	snprintf(expected, sizeof(expected), "%#llx", (unsigned long long)*word);
	atomic_store(&control->abort, *word);
	team_barrier(m);
	team_expect(m, corale_barrier(m->comm, NULL), CORALE_EINTERNAL, "a call");
	team_expect(m, corale_comm_async_error(m->comm), CORALE_EINTERNAL, "async_error");
	if (!strstr(corale_comm_last_error(m->comm), expected))
		team_fault(m, "\"%s\" should say %s", corale_comm_last_error(m->comm), expected);
	team_barrier(m);
}

/* ---- Windows ---- */

/* Descriptors of shared memory as a peer might pass it on; -1 if the system makes none. */
static int make_memory(off_t bytes, int seals)
{
	int fd = memfd_create("peer_data_test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd >= 0 && !ftruncate(fd, bytes) && (!seals || !fcntl(fd, F_ADD_SEALS, seals)))
		return fd;
	return -1;
}

static void expect_map(int fd, int expected)
{
	void *window = NULL;
	assert_true(fd >= 0);
	assert_int_equal(window_map_peer(fd, WINDOW_BYTES, 0, 3, &window), expected);
	if (expected) {
		assert_null(window);
		assert_non_null(strstr(log_last_error(), "rank 3"));
		assert_non_null(strstr(log_last_error(), "65536"));
	} else {
		((volatile char *)window)[WINDOW_BYTES - 1] = 1;
		window_unmap(window, WINDOW_BYTES);
	}
	close(fd);
}

static void test_windows(void **state)
{
	const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
	expect_map(make_memory(WINDOW_BYTES, sealed), 0);
	expect_map(make_memory(WINDOW_BYTES, 0), CORALE_EPEER);
	expect_map(make_memory(WINDOW_BYTES, F_SEAL_GROW), CORALE_EPEER);
	expect_map(make_memory(WINDOW_BYTES - 4096, sealed), CORALE_EPEER);
	expect_map(make_memory(0, sealed), CORALE_EPEER);
	expect_map(open("/dev/zero", O_RDWR | O_CLOEXEC), CORALE_EPEER);
}

/* What this process makes is what others accept. */
static void test_own_window(void **state)
{
	int fd;
	void *window;
	assert_int_equal(window_create(WINDOW_BYTES, 0, &fd, &window), 0);
	window_unmap(window, WINDOW_BYTES);
	expect_map(fd, 0);
}

/* ---- Greetings ---- */

struct world {
	const struct hello *all;
	int size;
};

static int give(void *ctx, const void *in, size_t bytes, void *out)
{
	const struct world *w = ctx;
	if (bytes != sizeof(*w->all))
		return 1;
	memcpy(out, w->all, (size_t)w->size * bytes);
	return 0;
}

static struct hello *make_hellos(int size)
{
	const struct settings *settings;
	assert_int_equal(settings_get(&settings), 0);
	struct hello *all = calloc((size_t)size, sizeof(*all));
	assert_non_null(all);
	for (int r = 0; r < size; r++) {
		corale_bootstrap b = { .rank = r, .size = size };
		if (r)
			all[r] = all[0];
		else
			hello_init(all, &b, settings, NULL, 0);
		all[r].rank = r;
	}
	return all;
}

/* The result of a comparison, on the last rank. */
static int compare(const struct hello *all, int size)
{
	struct world w = { all, size };
	corale_bootstrap b = { .rank = size - 1, .size = size, .ctx = &w, .allgather = give };
	const struct settings *settings;
	struct hello *got = NULL;
	assert_int_equal(settings_get(&settings), 0);
	assert_int_equal(hello_exchange(&b, &all[size - 1], &got), 0);
	int ret = hello_compare(&b, got, settings);
	free(got);
	return ret;
}

static void test_hello(void **state)
{
	struct hello *all = make_hellos(2);
	char name[sizeof(all[0].name) + 1] = "";
	assert_int_equal(compare(all, 2), 0);
	all[0].status = CORALE_ENOMEM;
	memset(all[0].name, 'x', sizeof(all[0].name));
	memset(name, 'x', sizeof(name) - 1);
	assert_int_equal(compare(all, 2), CORALE_ENOMEM);
	assert_null(strstr(log_last_error(), name));
	assert_non_null(strstr(log_last_error(), name + 1));
	all[0].status = 5;
	assert_int_equal(compare(all, 2), CORALE_EINTERNAL);
	all[0].status = 0;
	all[0].cores = INT32_MAX;
	assert_int_equal(compare(all, 2), CORALE_EINVAL);
	all[0].cores = 0;
	assert_int_equal(compare(all, 2), CORALE_EINVAL);
	all[0].cores = 1;
	all[0].pid = 0; /* stands for this very process elsewhere */
	assert_int_equal(compare(all, 2), CORALE_EINVAL);
	assert_non_null(strstr(log_last_error(), "process 0"));
	free(all);
}

static void test_crowded_host(void **state)
{
	enum { MOST = 4096 };
	struct hello *all = make_hellos(MOST + 1);
	struct settings settings = { 0 };
	struct topo *topo = NULL;
	assert_int_equal(hello_topology(all, MOST, &settings, &topo), 0);
	topo_destroy(topo);
	topo = NULL;
	assert_int_equal(hello_topology(all, MOST + 1, &settings, &topo), CORALE_ENOTSUP);
	assert_null(topo);
	assert_non_null(strstr(log_last_error(), "4097"));
	settings.node_size = 64;
	assert_int_equal(hello_topology(all, MOST + 1, &settings, &topo), 0);
	topo_destroy(topo);
	free(all);
}

static int cores_x16(const struct hello *all, int size)
{
	struct settings settings = { 0 };
	struct topo *topo = NULL;
	assert_int_equal(hello_topology(all, size, &settings, &topo), 0);
	int cores = topo->cores_per_rank_x16;
	topo_destroy(topo);
	return cores;
}

/* Ranks with one affinity mask share its cores, however many cores their host has. */
static void test_shared_masks(void **state)
{
	enum { MANY = 64 };
	struct hello *all = make_hellos(MANY);
	for (int r = 0; r < MANY; r++) {
		all[r].cores = 2;
		all[r].mask = (uint32_t)r / 4;
	}
	assert_int_equal(cores_x16(all, MANY), 8);
	all[0].mask = 1000; /* its cores are its own; the others' count */
	assert_int_equal(cores_x16(all, MANY), 8);
	for (int r = 0; r < MANY; r++)
		all[r].mask = 0;
	assert_int_equal(cores_x16(all, MANY), 1); /* half a 16th */
	free(all);
}

/* ---- Two processes of one number ---- */

/* Ranks are processes at the ends of a socket. */
static int gather(void *ctx, const void *in, size_t bytes, void *out)
{
	const int *end = ctx;
	char *place = (char *)out + (size_t)end[1] * bytes,
	     *peer = (char *)out + (size_t)(1 - end[1]) * bytes;
	memcpy(place, in, bytes);
	return write(end[0], in, bytes) != (ssize_t)bytes ||
	       recv(end[0], peer, bytes, MSG_WAITALL) != (ssize_t)bytes;
}

/* Each sends the other what only it has; large enough to be read from its memory. */
static int meet(int end, int rank)
{
	enum { LARGE = 1 << 20 };
	static int32_t mine[LARGE], theirs[LARGE];
	corale_bootstrap b = { .rank = rank, .size = 2, .ctx = (int[]){ end, rank }, .allgather = gather };
	corale_comm *comm = NULL;
	for (int i = 0; i < LARGE; i++)
		mine[i] = rank + 1;
	int ret = corale_comm_create(&b, NULL, &comm);
	corale_group_begin();
	if (!ret)
		ret = corale_send(mine, LARGE, CORALE_INT32, 1 - rank, comm, NULL);
	if (!ret)
		ret = corale_recv(theirs, LARGE, CORALE_INT32, 1 - rank, comm, NULL);
	int end_ret = corale_group_end();
	for (int i = 0; !ret && !end_ret && i < LARGE; i++)
		ret = theirs[i] != 2 - rank;
	corale_comm_destroy(comm);
	return ret || end_ret;
}

/* As the first process of a PID namespace of its own; 77 where none can be made. */
static int meet_apart(int end, int rank)
{
	int status = -1;
	if (unshare(CLONE_NEWPID))
		return 77;
	pid_t child = fork();
	if (!child) {
		alarm(30);
		_exit(meet(end, rank));
	}
	return waitpid(child, &status, 0) != child || status ? 1 : 0;
}

static int same_number(void)
{
	int ends[2], status[2] = { -1, -1 };
	pid_t children[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	for (int r = 0; r < 2; r++) {
		children[r] = fork();
		if (!children[r])
			_exit(meet_apart(ends[r], r));
	}
	for (int r = 0; r < 2; r++)
		waitpid(children[r], &status[r], 0);
	return status[0] ? WEXITSTATUS(status[0]) | WTERMSIG(status[0]) : status[1];
}

static void test_same_number(void **state)
{
	int status;
	status = team_spawn("CORALE_DEBUG=none CORALE_TIMEOUT=10 CORALE_REFERENCE=yes", "processes");
	if (status == 77)
		print_message("# left out: no PID namespaces can be made here\n");
	else
		assert_int_equal(status, 0);
}

/* ---- All ---- */

enum {
	FIRST = 5,
	HEADERS = sizeof(header_lies) / sizeof(*header_lies),
	WORDS = sizeof(words) / sizeof(*words)
};

static void run_case(void **state)
{
	char number[16];
	snprintf(number, sizeof(number), "%d", (int)(intptr_t)*state);
	assert_int_equal(
	    team_spawn("CORALE_DEBUG=none CORALE_TIMEOUT=10 CORALE_SLOTS=8 CORALE_SLOT_BYTES=4096 "
		       "CORALE_REFERENCE=no CORALE_MAX_CHANNELS=1",
		       number),
	    0);
}

static int spawned(int i)
{
	if (i < HEADERS)
		return team_run(RANKS, NULL, lie_in_header, (void *)(uintptr_t)&header_lies[i]);
	return team_run(RANKS, NULL, lie_in_word, (void *)(uintptr_t)&words[i - HEADERS]);
}

int main(int argc, char **argv)
{
	static char word_names[WORDS][48];
	struct CMUnitTest tests[HEADERS + WORDS + FIRST] = {
		cmocka_unit_test(test_windows),      cmocka_unit_test(test_own_window),
		cmocka_unit_test(test_hello),        cmocka_unit_test(test_crowded_host),
		cmocka_unit_test(test_shared_masks), cmocka_unit_test(test_same_number),
	};
	if (argc > 1 && !strcmp(argv[1], "processes"))
		return same_number();
	if (argc > 1)
		return spawned(atoi(argv[1]) % (HEADERS + WORDS)) != 0;
	for (int i = 0; i < HEADERS + WORDS; i++) {
		const char *name = i < HEADERS ? header_lies[i].name : word_names[i - HEADERS];
		if (i >= HEADERS)
			snprintf(word_names[i - HEADERS], sizeof(word_names[0]), "the abort word %#llx",
				 (unsigned long long)words[i - HEADERS]);
		tests[FIRST + i] = (struct CMUnitTest){ name, run_case, NULL, NULL, (void *)(intptr_t)i };
	}
	return cmocka_run_group_tests_name("peer_data", tests, NULL, NULL);
}
