/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the links between GPUs are found (lib/cuda/nvml.c), by a library that the test makes up, and what they leave of the ways in which a
 * communicator's small messages travel (lib/comm/gpu_links.c): the same on all ranks, told once.
 */
#include <pthread.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "comm/gpu.h"
#include "cuda/nvml.h"

/* ---- A machine of GPUs a, b, ..., by one letter of their PCI bus ids ---------------------------------------- */

enum { WORKS = NVML_STATUS_OK, NOT_SUPPORTED = 5, UNKNOWN = NVML_STATUS_UNKNOWN, ERROR = 99 };

static int status_of[3]; /* of each enum nvml_p2p */
static const char *known; /* letters of the GPUs that the library knows */

static int find(const char *pci, void **device)
{
	*device = (void *)(uintptr_t)strchr(known, *pci);
	return !*device;
}

static int status(void *from, void *to, int of, int *out)
{
	assert_ptr_not_equal(from, to);
	*out = status_of[of];
	return status_of[of] == ERROR;
}

static unsigned pcie_generation, pcie_width;

static int generation(void *device, unsigned *out)
{
	*out = pcie_generation;
	return 0;
}

static int width(void *device, unsigned *out)
{
	*out = pcie_width;
	return 0;
}

static const struct nvml library = { .find = find,
				     .status = status,
				     .generation = generation,
				     .width = width },
			 none;

static void expect(const struct nvml *nvml, int nvlink, int reads, int writes, enum engine_link cuda,
		   enum engine_link expected)
{
	status_of[NVML_NVLINK] = nvlink;
	status_of[NVML_READ] = reads;
	status_of[NVML_WRITE] = writes;
	known = "ab";
	assert_int_equal(nvml_link(nvml, "a", "b", cuda), expected);
}

/* With one CUDA_VISIBLE_DEVICES a rank: only the library knows. */
UNIT_TEST(test_unseen)
{
	const enum engine_link cuda = ENGINE_UNKNOWN_LINK;
	expect(&library, WORKS, NOT_SUPPORTED, NOT_SUPPORTED, cuda, ENGINE_NVLINK);
	expect(&library, NOT_SUPPORTED, WORKS, WORKS, cuda, ENGINE_PEER);
	expect(&library, NOT_SUPPORTED, WORKS, NOT_SUPPORTED, cuda, ENGINE_NO_LINK);
	expect(&library, NOT_SUPPORTED, NOT_SUPPORTED, WORKS, cuda, ENGINE_NO_LINK);
	expect(&library, NOT_SUPPORTED, ERROR, WORKS, cuda, ENGINE_UNKNOWN_LINK);
	expect(&library, UNKNOWN, WORKS, WORKS, cuda, ENGINE_UNKNOWN_LINK);
	expect(&library, ERROR, WORKS, WORKS, cuda, ENGINE_UNKNOWN_LINK);
	expect(&none, WORKS, WORKS, WORKS, cuda, ENGINE_UNKNOWN_LINK);
}

/* CUDA knows whether there is access, the library whether it is NVLink. */
UNIT_TEST(test_seen)
{
	expect(&library, WORKS, WORKS, WORKS, ENGINE_PEER, ENGINE_NVLINK);
	expect(&library, NOT_SUPPORTED, WORKS, WORKS, ENGINE_NVLINK, ENGINE_PEER);
	expect(&library, NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED, ENGINE_NVLINK, ENGINE_PEER);
	expect(&library, WORKS, WORKS, WORKS, ENGINE_NO_LINK, ENGINE_NO_LINK);
	for (int cuda = ENGINE_NO_LINK; cuda <= ENGINE_NVLINK; cuda++) {
		expect(&library, ERROR, ERROR, ERROR, (enum engine_link)cuda, (enum engine_link)cuda);
		expect(&none, WORKS, WORKS, WORKS, (enum engine_link)cuda, (enum engine_link)cuda);
		known = "a";
		assert_int_equal(nvml_link(&library, "a", "b", (enum engine_link)cuda), cuda);
		assert_int_equal(nvml_link(&library, "b", "a", (enum engine_link)cuda), cuda);
	}
}

UNIT_TEST(test_one_gpu)
{
	known = "a";
	assert_int_equal(nvml_link(&library, "a", "a", ENGINE_UNKNOWN_LINK), ENGINE_NVLINK);
	assert_int_equal(nvml_link(&none, "b", "b", ENGINE_UNKNOWN_LINK), ENGINE_NVLINK);
}

static void expect_bus(unsigned of_generation, unsigned of_width, int gbs)
{
	known = "a";
	pcie_generation = of_generation;
	pcie_width = of_width;
	assert_int_equal(nvml_bus_gbs(&library, "a"), gbs);
	assert_int_equal(nvml_bus_gbs(&library, "b"), 0);
	assert_int_equal(nvml_bus_gbs(&none, "a"), 0);
}

UNIT_TEST(test_bus)
{
	expect_bus(5, 16, 50);
	expect_bus(4, 16, 25);
	expect_bus(3, 8, 6);
	expect_bus(1, 1, 1);
	expect_bus(0, 16, 0);
	expect_bus(40, 16, 0);
}

/* Whatever this machine has. */
UNIT_TEST(test_real_library)
{
	struct nvml nvml;
	nvml_open(&nvml);
	assert_int_equal(nvml_link(&nvml, "ffff:ff:1f.7", "ffff:ff:1f.6", ENGINE_UNKNOWN_LINK),
			 ENGINE_UNKNOWN_LINK);
	nvml_close(&nvml);
}

/* ---- Ranks, as threads -------------------------------------------------------------------------------------- */

enum { RANKS = 6 };

static _Thread_local const enum engine_link *row; /* of the rank that a thread is */
static _Thread_local int works;
static _Thread_local size_t tried; /* bytes */

struct machine {
	pthread_barrier_t barrier;
	char gathered[4096];
	enum engine_link links[RANKS][RANKS];
	const char *proto;
	char hosts[RANKS + 1], nodes[RANKS][RANKS + 1]; /* a letter a rank */
	int asked, barred; /* a bit a rank: to be apart; it can't pass descriptors */
	int denied, sharing,
	    works; /* a bit a rank: hello.no_access, hello.host_window; whether it can register */
	size_t tried[RANKS]; /* bytes that it was asked to register */
	int ret[RANKS], words_only[RANKS], host_window[RANKS], apart[RANKS][RANKS];
};

struct rank {
	struct machine *machine;
	int rank;
};

static void links(const struct engine_identity *gpus, int n, enum engine_link *out)
{
	for (int p = 0; p < n; p++)
		out[p] = row[gpus[p].pci[0] - 'a'];
}

static int is_bad; /* each pair of GPUs a and b */

int gpu_peers_are_bad(const struct engine_identity *a, const struct engine_identity *b)
{
	return is_bad && a->pci[0] + b->pci[0] == 'a' + 'b';
}

static int host_window_works(int ranks, size_t bytes, char *why, size_t why_bytes)
{
	tried = (size_t)ranks * bytes;
	snprintf(why, why_bytes, "no room");
	return works;
}

const struct engine_process_ops engine_process = {
	.links = links,
	.host_window_works = host_window_works,
};

static int allgather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct rank *r = ctx;
	if (bytes * RANKS > sizeof r->machine->gathered)
		return -1;
	memcpy(r->machine->gathered + bytes * (size_t)r->rank, in, bytes);
	pthread_barrier_wait(&r->machine->barrier);
	memcpy(out, r->machine->gathered, bytes * RANKS);
	pthread_barrier_wait(&r->machine->barrier);
	return 0;
}

static void *play(void *arg)
{
	struct rank *r = arg;
	struct hello hellos[RANKS] = { 0 };
	struct comm *comm = calloc(1, sizeof *comm);
	if (!comm)
		abort();
	row = r->machine->links[r->rank];
	works = r->machine->works >> r->rank & 1;
	tried = 0;
	for (int p = 0; p < RANKS; p++) {
		hellos[p].id.pci[0] = (char)('a' + p);
		hellos[p].node = hellos[p].host = (uint64_t)r->machine->hosts[p];
		snprintf(hellos[p].name, sizeof hellos[p].name, "host%c", r->machine->hosts[p]);
		if (r->machine->asked >> p & 1)
			hello_set_apart(&hellos[p], HELLO_ASKED, (uint64_t)p + 100);
		if (r->machine->barred >> p & 1)
			hello_set_apart(&hellos[p], HELLO_NO_DESCRIPTORS, (uint64_t)p + 300);
		hellos[p].token = (uint64_t)p + 200;
		hellos[p].no_access = r->machine->denied >> p & 1;
		hellos[p].host_window = r->machine->sharing >> p & 1;
	}
	comm->settings.host_window = 1000;
	comm->rank = r->rank;
	comm->size = RANKS;
	comm->bootstrap = (corale_bootstrap){ r->rank, RANKS, r, allgather };
	snprintf(comm->settings.proto, sizeof comm->settings.proto, "%s", r->machine->proto);
	r->machine->ret[r->rank] = gpu_find_links(comm, hellos);
	r->machine->words_only[r->rank] = comm->words_only;
	r->machine->host_window[r->rank] = comm->host_window;
	r->machine->tried[r->rank] = tried;
	for (int p = 0; p < RANKS; p++) { /* the first rank of p's node, and why it is not all of the host */
		int first = 0;
		while (hellos[first].node != hellos[p].node)
			first++;
		r->machine->nodes[r->rank][p] = (char)('a' + first);
		r->machine->apart[r->rank][p] = hellos[p].apart;
	}
	free(comm);
	return NULL;
}

static char log_path[] = "/tmp/corale_link_test_XXXXXX";

/* The lines of log of all ranks. */
static void run(struct machine *m, const char *proto, char *text, size_t bytes)
{
	struct rank ranks[RANKS];
	pthread_t threads[RANKS];
	m->proto = proto;
	memset(m->nodes, 0, sizeof m->nodes);
	assert_int_equal(truncate(log_path, 0), 0);
	assert_int_equal(pthread_barrier_init(&m->barrier, NULL, RANKS), 0);
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = (struct rank){ m, r };
		m->words_only[r] = -1;
		assert_int_equal(pthread_create(&threads[r], NULL, play, &ranks[r]), 0);
	}
	for (int r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
	pthread_barrier_destroy(&m->barrier);
	FILE *file = fopen(log_path, "r");
	assert_non_null(file);
	text[fread(text, 1, bytes - 1, file)] = 0;
	fclose(file);
}

/* Hosts by a letter a rank; all of NVLink. */
static struct machine machine_of(const char *hosts)
{
	struct machine m = { 0 };
	snprintf(m.hosts, sizeof m.hosts, "%s", hosts);
	for (int i = 0; i < RANKS * RANKS; i++)
		m.links[i / RANKS][i % RANKS] = ENGINE_NVLINK;
	return m;
}

static int lines_of(const char *text)
{
	int n = 0;
	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void expect_words(const char *proto, enum engine_link link, int words_only, const char *line)
{
	struct machine m = machine_of("AAAAAA");
	char text[4096];
	m.links[1][2] = link;
	run(&m, proto, text, sizeof text);
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(m.ret[r], 0);
		assert_int_equal(m.words_only[r], words_only);
		assert_string_equal(m.nodes[r], "aaaaaa");
	}
	assert_int_equal(lines_of(text), line != NULL);
	if (line)
		assert_non_null(strstr(text, line));
}

UNIT_TEST(test_all_alike)
{
	expect_words("auto", ENGINE_NVLINK, 0, NULL);
	expect_words("LL128", ENGINE_NVLINK, 0, NULL);
	expect_words("LL", ENGINE_NVLINK, 1, "CORALE_PROTO=LL: small messages go by words of 8 bytes (LL)");
	expect_words("auto", ENGINE_PEER, 1, "the GPUs of ranks 1 and 2 have no NVLink between them");
	expect_words("LL128", ENGINE_PEER, 1, "the GPUs of ranks 1 and 2 have no NVLink between them");
	expect_words("auto", ENGINE_UNKNOWN_LINK, 1, "the GPUs of ranks 1 and 2 can't be told");
}

static void expect_nodes(struct machine *m, const char *nodes, int words_only, char *text, size_t bytes)
{
	run(m, "auto", text, bytes);
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(m->ret[r], 0);
		assert_string_equal(m->nodes[r], nodes);
		assert_int_equal(m->words_only[r], words_only);
		assert_memory_equal(m->apart[r], m->apart[0], sizeof m->apart[r]);
	}
}

/* Where GPUs can't reach each other, those are a node that do; a warning says so, once a process. */
UNIT_TEST(test_no_access)
{
	char text[4096];
	struct machine one = machine_of("AAAAAA"), two = machine_of("AAABBB"), islands = machine_of("AAAAAA"),
		       barren = machine_of("ABABAB"), asked = machine_of("AAABBB");
	two.links[1][0] = ENGINE_NO_LINK; /* one direction is enough */
	expect_nodes(&two, "abaddd", 0, text, sizeof text);
	assert_non_null(
	    strstr(text, "the GPUs of ranks 1 and 0 on host hostA can't reach each other's memory"));
	assert_int_equal(lines_of(text), 1);
	assert_int_equal(two.apart[0][2], HELLO_NO_ACCESS);
	assert_int_equal(two.apart[0][3], HELLO_TOGETHER);
	for (int i = 0; i < RANKS * RANKS; i++)
		if (i / RANKS / 3 != i % RANKS / 3)
			islands.links[i / RANKS][i % RANKS] = ENGINE_NO_LINK;
	islands.links[4][5] = ENGINE_PEER;
	expect_nodes(&islands, "aaaddd", 1, text, sizeof text);
	assert_int_equal(lines_of(text), 1); /* that 4 and 5 have no NVLink */
	for (int i = 0; i < RANKS * RANKS; i++)
		barren.links[i / RANKS][i % RANKS] = i / RANKS == i % RANKS ? ENGINE_NVLINK : ENGINE_NO_LINK;
	expect_nodes(&barren, "abcdef", 0, text, sizeof text);
	asked.asked = 1 << 1 | 1 << 5;
	expect_nodes(&asked, "abaddf", 0, text, sizeof text);
	assert_int_equal(asked.apart[0][0], HELLO_TOGETHER);
	assert_int_equal(asked.apart[0][1], HELLO_ASKED);
	expect_nodes(&one, "aaaaaa", 0, text, sizeof text);
	assert_int_equal(lines_of(text), 0);
}

static void deny(struct machine *m, int from, int to)
{
	m->links[from][to] = ENGINE_NO_LINK; /* one direction is enough */
}

/* No two of these ranks reach each other. */
static void deny_among(struct machine *m, int first, int end)
{
	for (int a = first; a < end; a++)
		for (int b = first; b < a; b++)
			deny(m, a, b);
}

enum { ALL = (1 << RANKS) - 1 };

static struct machine sharing_of(const char *hosts)
{
	struct machine m = machine_of(hosts);
	m.sharing = m.works = ALL;
	return m;
}

/* Ranks of which no two reach each other, or which ask not to, share host memory where all hosts and all ranks allow it. */
UNIT_TEST(test_host_window)
{
	char text[4096];
	struct machine denied = sharing_of("AAAAAA"), three = sharing_of("AAABBC"),
		       asked = sharing_of("AAAAAA");
	denied.denied = ALL;
	expect_nodes(&denied, "aaaaaa", 1, text, sizeof text);
	assert_int_equal(denied.host_window[0], 1);
	assert_int_equal(denied.tried[3], RANKS * 1000);
	assert_non_null(strstr(text, "share 1000 bytes of host memory each"));
	assert_int_equal(lines_of(text), 1);
	deny_among(&three, 0, 3);
	deny_among(&three, 3, 5);
	expect_nodes(&three, "aaaddf", 1, text, sizeof text);
	assert_int_equal(three.host_window[5], 1);
	assert_int_equal(three.tried[4], 2 * 1000);
	assert_int_equal(three.tried[5], 0); /* alone on its host */
	asked.denied = ALL & ~1; /* all pairs of rank 0, too */
	expect_nodes(&asked, "aaaaaa", 1, text, sizeof text);
}

static void expect_no_window(struct machine *m, const char *nodes)
{
	char text[4096];
	expect_nodes(m, nodes, 0, text, sizeof text);
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(m->host_window[r] + (int)m->tried[r], 0);
}

/* Elsewhere they are nodes as without it: where some reach each other, on any host, or a rank may share nothing or can't pass descriptors. */
UNIT_TEST(test_no_host_window)
{
	struct machine pairs = sharing_of("AAAABC"), one = sharing_of("AAAABB"), mixed = sharing_of("AAABBB"),
		       some = sharing_of("AAAAAA"), barred = sharing_of("AAAAAA"),
		       reach = sharing_of("AAAAAA");
	for (int i = 0; i < 4; i++)
		deny(&pairs, i / 2, 2 + i % 2);
	expect_no_window(&pairs, "aaccef");
	for (int i = 0; i < 3; i++)
		deny(&one, 3, i);
	deny(&one, 4, 5);
	expect_no_window(&one, "aaadef");
	deny_among(&mixed, 0, 3); /* ranks of host B reach each other */
	expect_no_window(&mixed, "abcddd");
	some.denied = ALL;
	some.sharing = ALL & ~8; /* NCCL_SHM_DISABLE=1 on rank 3 */
	expect_no_window(&some, "abcdef");
	barred.denied = barred.barred = ALL;
	expect_no_window(&barred, "abcdef");
	expect_no_window(&reach, "aaaaaa");
	is_bad = 1; /* one pair, found out by an earlier creation */
	expect_no_window(&reach, "abaaaa");
	is_bad = 0;
}

/* One rank's GPU does not take the memory: it says so, once a process, and all are nodes as without it. */
UNIT_TEST(test_host_window_refused)
{
	char text[4096];
	for (int times = 0; times < 2; times++) {
		struct machine poor = sharing_of("AAAAAA");
		poor.denied = ALL;
		poor.works = ALL & ~(4 | 16);
		expect_nodes(&poor, "abcdef", 0, text, sizeof text);
		assert_int_equal(poor.apart[0][4], HELLO_ASKED);
		assert_int_equal(poor.host_window[2], 0);
		assert_int_equal(lines_of(text), !times);
		assert_int_equal(strstr(text, "no room: the GPUs of this host") != NULL, !times);
	}
}

int main(void)
{
	int fd = mkstemp(log_path);
	if (fd < 0)
		return 1;
	close(fd);
	log_open(LOG_INFO, log_path);
	int failed = unit_run(NULL, NULL);
	unlink(log_path);
	return failed;
}
