/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA adapters: paths and choices on the machines of test/topologies, against tables; any order of ranks; names; malformed input. */
#include <sys/stat.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "corale.h"
#include "base/log.h"
#include "net/adapters.h"
#include "net/network.h"

enum { GPUS = 8 };

/* paths: of each GPU to each port of the list, by initial: I PIX, X PXB, H PHB, S SYS, ? unknown. chosen: by all GPUs together. gpudirect: Yes, No, to be
 * Measured. */
struct machine {
	const char *file, *ports;
	const char *gpus[GPUS];
	const char *paths[GPUS], *chosen[GPUS];
	const char *gpudirect;
};

static const struct machine machines[] = {
	/* mlx5_1 and mlx5_7 have a second port that is down, and no GPU beside them. */
	{ .file = "dgx-h100",
	  .ports =
	      "mlx5_0:1,mlx5_1:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1,mlx5_9:1,mlx5_10:1,mlx5_11:1",
	  .gpus = { "0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0", "0000:9d:00.0",
		    "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0" },
	  .paths = { "IHHHHSSSSS", "HHIHHSSSSS", "HHHIHSSSSS", "HHHHISSSSS", "SSSSSIHHHH", "SSSSSHHIHH",
		     "SSSSSHHHIH", "SSSSSHHHHI" },
	  .chosen = { "mlx5_0:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1", "mlx5_6:1", "mlx5_9:1", "mlx5_10:1",
		      "mlx5_11:1" },
	  .gpudirect = "YYYYYYYY" },
	{ .file = "hgx-4-adapters",
	  .ports = "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1",
	  .gpus = { "0000:13:00.0", "0000:14:00.0", "0000:33:00.0", "0000:34:00.0", "0000:93:00.0",
		    "0000:94:00.0", "0000:b3:00.0", "0000:b4:00.0" },
	  .paths = { "IHSS", "IHSS", "HISS", "HISS", "SSIH", "SSIH", "SSHI", "SSHI" },
	  .chosen = { "mlx5_0:1", "mlx5_0:1", "mlx5_1:1", "mlx5_1:1", "mlx5_2:1", "mlx5_2:1", "mlx5_3:1",
		      "mlx5_3:1" },
	  .gpudirect = "YYYYYYYY" },
	{ .file = "cloud-8-adapters",
	  .ports = "mlx5_ib0:1,mlx5_ib1:1,mlx5_ib2:1,mlx5_ib3:1,mlx5_ib4:1,mlx5_ib5:1,mlx5_ib6:1,mlx5_ib7:1",
	  .gpus = { "0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0004:00:00.0", "0005:00:00.0",
		    "0006:00:00.0", "0007:00:00.0", "0008:00:00.0" },
	  .paths = { "HHHHHHHH", "HHHHHHHH", "HHHHHHHH", "HHHHHHHH", "HHHHHHHH", "HHHHHHHH", "HHHHHHHH",
		     "HHHHHHHH" },
	  .chosen = { "mlx5_ib0:1", "mlx5_ib1:1", "mlx5_ib2:1", "mlx5_ib3:1", "mlx5_ib4:1", "mlx5_ib5:1",
		      "mlx5_ib6:1", "mlx5_ib7:1" },
	  .gpudirect = "MMMMMMMM" },
	{ .file = "workstation",
	  .ports = "mlx5_0:1",
	  .gpus = { "0000:01:00.0" },
	  .paths = { "H" },
	  .chosen = { "mlx5_0:1" },
	  .gpudirect = "M" },
	{ .file = "adapters-on-one-socket",
	  .ports = "mlx5_0:1,mlx5_1:1",
	  .gpus = { "0000:13:00.0", "0000:14:00.0", "0000:83:00.0", "0000:84:00.0" },
	  .paths = { "II", "II", "SS", "SS" },
	  .chosen = { "mlx5_0:1", "mlx5_1:1", "mlx5_0:1", "mlx5_1:1" },
	  .gpudirect = "YYNN" },
	/* One adapter with two ports. */
	{ .file = "two-switches",
	  .ports = "mlx5_0:1,mlx5_0:2",
	  .gpus = { "0000:22:00.0", "0000:23:00.0" },
	  .paths = { "XX", "XX" },
	  .chosen = { "mlx5_0:1", "mlx5_0:2" },
	  .gpudirect = "YY" },
	{ .file = "adapter-with-switch",
	  .ports = "mlx5_0:1",
	  .gpus = { "0000:13:00.0" },
	  .paths = { "X" },
	  .chosen = { "mlx5_0:1" },
	  .gpudirect = "Y" },
	{ .file = "root-ports",
	  .ports = "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1",
	  .gpus = { "0000:11:00.0", "0000:12:00.0", "0000:81:00.0", "0000:82:00.0" },
	  .paths = { "HHSS", "HHSS", "SSHH", "SSHH" },
	  .chosen = { "mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1" },
	  .gpudirect = "MMMM" },
	{ .file = "no-pci",
	  .ports = "mlx5_0:1,mlx5_1:1",
	  .gpus = { "0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0" },
	  .paths = { "??", "??", "??", "??" },
	  .chosen = { "mlx5_0:1", "mlx5_0:1", "mlx5_1:1", "mlx5_1:1" },
	  .gpudirect = "MMMM" },
};

/* Builds without it read no trees. */
static int has_hwloc(void)
{
#ifdef HAVE_HWLOC
	return 1;
#else
	return 0;
#endif
}

static struct adapters *read_machine(const char *file)
{
	const char *folder = getenv("top_srcdir");
	char path[512];
	snprintf(path, sizeof(path), "%s/test/topologies/%s.xml", folder ? folder : ".", file);
	struct adapters *adapters = NULL;
	assert_int_equal(adapters_read(&(struct adapters_source){ .tree = path }, &adapters), 0);
	assert_int_equal(adapters_select(adapters, "", ""), 0);
	return adapters;
}

static int count_gpus(const struct machine *m)
{
	int n = 0;
	while (n < GPUS && m->gpus[n])
		n++;
	return n;
}

/* "mlx5_0:1,mlx5_1:1" */
static const char *choose(const struct adapters *adapters, const char *const *gpus, int ngpus, int i,
			  struct adapters_choice *choice)
{
	static char text[ADAPTERS_RAILS * ADAPTERS_DEVICE_BYTES];
	text[0] = '\0';
	adapters_choose(adapters, gpus, ngpus, i, choice);
	for (int r = 0; r < choice->rails; r++) {
		strcat(text, r ? "," : "");
		strcat(text, choice->device[r]);
	}
	return text;
}

static void check_machine(const struct machine *m)
{
	static const char initials[] = "IXHS?";
	struct adapters *adapters = read_machine(m->file);
	struct adapters_choice choice;
	char text[400];
	adapters_list(adapters, text, sizeof(text));
	assert_string_equal(text, m->ports);
	for (int g = 0; g < count_gpus(m); g++) {
		int n = 0;
		for (int p = 0; p < adapters->nports; p++)
			if (adapters->port[p].use == ADAPTERS_COUNTS)
				text[n++] = initials[adapters_path(adapters, m->gpus[g], p)];
		text[n] = '\0';
		assert_string_equal(text, m->paths[g]);
		assert_string_equal(choose(adapters, m->gpus, count_gpus(m), g, &choice), m->chosen[g]);
		assert_int_equal("NMY"[choice.gpudirect], m -> gpudirect[g]);
		assert_non_null(strstr(choice.reason, adapters_path_name(choice.path)));
	}
	adapters_free(adapters);
}

UNIT_TEST(test_machines)
{
	if (!has_hwloc())
		return;
	for (size_t m = 0; m < sizeof(machines) / sizeof(*machines); m++)
		check_machine(&machines[m]);
}

/* Ranks in any order, some on one GPU, ids in other forms: a GPU's adapter stays the same. */
static void check_order(const struct machine *m, unsigned seed)
{
	struct adapters *adapters = read_machine(m->file);
	const int n = count_gpus(m), ranks = n + (int)(seed % 5);
	const char *gpus[GPUS + 5];
	int which[GPUS + 5];
	struct adapters_choice choice;
	for (int r = 0; r < ranks; r++)
		which[r] = r < n ? r : (int)((seed >> 3) % (unsigned)n);
	for (int r = ranks - 1; r > 0; r--) {
		seed = seed * 1103515245u + 12345u;
		const int other = (int)((seed >> 16) % (unsigned)(r + 1)), kept = which[r];
		which[r] = which[other];
		which[other] = kept;
	}
	for (int r = 0; r < ranks; r++)
		gpus[r] = m->gpus[which[r]];
	for (int r = 0; r < ranks; r++)
		assert_string_equal(choose(adapters, gpus, ranks, r, &choice), m->chosen[which[r]]);
	adapters_free(adapters);
}

UNIT_TEST(test_any_order)
{
	if (!has_hwloc())
		return;
	for (size_t m = 0; m < sizeof(machines) / sizeof(*machines); m++)
		for (unsigned seed = 0; seed < 40; seed++)
			check_order(&machines[m], seed);
}

UNIT_TEST(test_some_gpus)
{
	const char *alone[] = { "0000:13:00.0" },
		   *three[] = { "0002:00:00.0", "0005:00:00.0", "0007:00:00.0" },
		   *strange[] = { "0000:77:00.0", "nonsense", "0000:77:00.0" };
	struct adapters_choice choice;
	if (!has_hwloc())
		return;
	struct adapters *adapters = read_machine("adapters-on-one-socket");
	assert_string_equal(choose(adapters, alone, 1, 0, &choice), "mlx5_0:1,mlx5_1:1");
	assert_int_equal(adapters_select(adapters, "", "^mlx5_0"), 0);
	assert_string_equal(choose(adapters, alone, 1, 0, &choice), "mlx5_1:1");
	adapters_free(adapters);
	adapters = read_machine("adapters-on-one-socket");
	assert_string_equal(choose(adapters, strange, 3, 0, &choice), "mlx5_0:1");
	assert_string_equal(choose(adapters, strange, 3, 1, &choice), "mlx5_1:1");
	assert_string_equal(choose(adapters, strange, 3, 2, &choice), "mlx5_0:1");
	assert_int_equal(choice.path, ADAPTERS_UNKNOWN);
	adapters_free(adapters);
	adapters = read_machine("cloud-8-adapters");
	assert_string_equal(choose(adapters, three, 3, 0, &choice), "mlx5_ib0:1,mlx5_ib1:1");
	assert_string_equal(choose(adapters, three, 3, 1, &choice), "mlx5_ib2:1,mlx5_ib3:1,mlx5_ib4:1");
	assert_string_equal(choose(adapters, three, 3, 2, &choice), "mlx5_ib5:1,mlx5_ib6:1,mlx5_ib7:1");
	adapters_free(adapters);
}

UNIT_TEST(test_ids)
{
	static const char *const same[] = { "0000:1b:00.0", "00000000:1B:00.0", "1b:00.0", "0:1b:0.0",
					    "0000:1b:00" };
	static const char *const malformed[] = { "",
						 "1b",
						 "1b:",
						 ":1b:00.0",
						 "0000:1b:00.8",
						 "1b:20.0",
						 "0000:1b:00.0 ",
						 " 1b:00.0",
						 "0000:1b:00.0.0",
						 "0x1b:0.0",
						 "0000:1b:00.",
						 "-1:1b:00.0",
						 "00:00:1b:00.0",
						 "1b:100.0" };
	uint64_t id;
	char text[ADAPTERS_PCI_BYTES];
	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
		assert_int_equal(adapters_parse_pci(same[i], &id), 0);
		adapters_print_pci(id, text);
		assert_string_equal(text, same[0]);
	}
	assert_int_equal(adapters_parse_pci("10000:e1:1f.7", &id), 0);
	adapters_print_pci(id, text);
	assert_string_equal(text, "10000:e1:1f.7");
	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++)
		assert_int_equal(adapters_parse_pci(malformed[i], &id), CORALE_EINVAL);
}

/* ---- Names ---- */

static struct adapters *make_adapters(void)
{
	static const char *const names[] = { "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10", "bnxt_re0" };
	struct adapters *adapters = calloc(1, sizeof(*adapters));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		for (int number = 1; number <= (i == 1 ? 2 : 1); number++) {
			struct adapters_port port = { .number = number, .is_active = 1, .object = -1 };
			snprintf(port.name, sizeof(port.name), "%s", names[i]);
			adapters_add_port(adapters, &port);
		}
	return adapters;
}

static void check_selection(const char *net_devices, const char *ib_hca, const char *expected)
{
	struct adapters *adapters = make_adapters();
	char list[400];
	const int ret = adapters_select(adapters, net_devices, ib_hca);
	assert_int_equal(ret, expected ? 0 : CORALE_ESETTING);
	adapters_list(adapters, list, sizeof(list));
	if (expected)
		assert_string_equal(list, expected);
	adapters_free(adapters);
}

UNIT_TEST(test_names)
{
	check_selection("", "", "bnxt_re0:1,mlx5_0:1,mlx5_1:1,mlx5_1:2,mlx5_2:1,mlx5_10:1");
	check_selection("", "mlx5_1", "mlx5_1:1,mlx5_1:2,mlx5_10:1");
	check_selection("", "=mlx5_1", "mlx5_1:1,mlx5_1:2");
	check_selection("", "=mlx5_1:", "mlx5_1:1,mlx5_1:2");
	check_selection("", "mlx5_1:2", "mlx5_1:2");
	check_selection("", "=mlx5_1:2:7:1,bnxt_re0:1", "bnxt_re0:1,mlx5_1:2");
	check_selection("", "=mlx5_1::7,mlx5_2", "mlx5_1:1,mlx5_1:2,mlx5_2:1");
	check_selection("", "^mlx5_1", "bnxt_re0:1,mlx5_0:1,mlx5_2:1");
	check_selection("", "^=mlx5_1:1,mlx5_0", "bnxt_re0:1,mlx5_1:2,mlx5_2:1,mlx5_10:1");
	check_selection("", ",mlx5_0,,bnxt_re0,", "bnxt_re0:1,mlx5_0:1");
	check_selection("mlx5_2:1", "mlx5_0", "mlx5_2:1");
	check_selection("mlx5_2:1", "=^mlx5_0", "mlx5_2:1");
	check_selection("all", "", "bnxt_re0:1,mlx5_0:1,mlx5_1:1,mlx5_1:2,mlx5_2:1,mlx5_10:1");
	check_selection("^mlx5_1:1", "", "bnxt_re0:1,mlx5_0:1,mlx5_1:2,mlx5_2:1,mlx5_10:1");
	check_selection("mlx5_1:1,eth0", "", "mlx5_1:1");
	check_selection("eth0", "", "");
	/* UCX may know an adapter that hwloc doesn't. */
	check_selection("fake0:1", "", "fake0:1");
}

UNIT_TEST(test_malformed_names)
{
	static const char *const malformed[] = { "=^mlx5_0",    "^^mlx5_0",
						 "==mlx5_0",    "^",
						 "=",           ",",
						 "mlx5_0:x",    "mlx5_0:1:1:1:1",
						 "mlx5_0:-1",   "mlx5_0:1 ",
						 "mlx5 0",      ":1",
						 "mlx5_0:999",  "mlx5_0:256:0:0",
						 "mlx5_0:1:x",  "mlx5_0;mlx5_1",
						 "mlx5_0:00001" };
	struct adapters_names names;
	char error[160], long_name[64], many[ADAPTERS_NAMES * 3 + 8] = "";
	log_open(LOG_NONE, NULL);
	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
		check_selection("", malformed[i], NULL);
		assert_int_equal(adapters_names_parse(malformed[i], &names, error, sizeof(error)),
				 CORALE_EINVAL);
		assert_true(strlen(error) > 10);
	}
	memset(long_name, 'm', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	check_selection("", long_name, NULL);
	assert_int_equal(adapters_names_parse(long_name, &names, error, sizeof(error)), CORALE_EINVAL);
	for (int i = 0; i <= ADAPTERS_NAMES; i++)
		strcat(many, "m,");
	check_selection("", many, NULL);
	check_selection("", "=nothing", NULL); /* leaves no adapter */
	check_selection("", "^mlx5,bnxt", NULL);
	log_open(LOG_WARN, NULL);
}

/* Random text of the characters that mean something: a value is refused with a reason, or has names. */
UNIT_TEST(test_random_text)
{
	static const char characters[] = "^=:,.019am_- x";
	struct adapters_names names;
	char error[160], text[48];
	unsigned seed = 1, accepted = 0;
	uint64_t id;
	for (int round = 0; round < 200000; round++) {
		const size_t length = (seed >> 16) % sizeof(text);
		size_t n = 0;
		for (; n < length; n++) {
			seed = seed * 1103515245u + 12345u;
			text[n] = characters[(seed >> 16) % (sizeof(characters) - 1)];
		}
		seed = seed * 1103515245u + 12345u;
		text[n] = '\0';
		error[0] = '\0';
		const int ret = adapters_names_parse(text, &names, error, sizeof(error));
		assert_true(ret == 0 ? names.n > 0 : ret == CORALE_EINVAL && error[0]);
		accepted += ret == 0;
		adapters_names_match(&names, "m_1", 1);
		adapters_devices_match(text, "m_1", 1);
		adapters_parse_pci(text, &id);
	}
	assert_true(accepted > 100);
}

/* An error line names the setting and what there is. Without any adapter the variable, which a whole machine may have set, is no error. */
UNIT_TEST(test_none_is_left)
{
	const char *gpus[] = { "0000:1b:00.0" };
	struct adapters *adapters = make_adapters(), *none = calloc(1, sizeof(*none));
	struct adapters_choice choice;
	log_open(LOG_NONE, NULL);
	assert_int_equal(adapters_select(adapters, "", "=nothing"), CORALE_ESETTING);
	assert_non_null(strstr(log_last_error(), "NCCL_IB_HCA==nothing"));
	assert_non_null(strstr(log_last_error(), "mlx5_1:1,mlx5_1:2,mlx5_2:1"));
	log_open(LOG_WARN, NULL);
	adapters_free(adapters);
	assert_int_equal(adapters_select(none, "", "=mlx5_0"), 0);
	adapters_choose(none, gpus, 1, 0, &choice);
	assert_int_equal(choice.rails, 0);
	assert_string_equal(choice.reason, "no RDMA adapter was found");
	adapters_free(none);
}

/* ---- This machine's files, and others' ---- */

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[400];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* In folder, as the kernel has it: adapter/ports/1/state and so on. */
static void write_port(const char *folder, const char *adapter, int port, const char *state, const char *rate)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/%s", folder, adapter);
	mkdir(path, 0700);
	strcat(path, "/ports");
	mkdir(path, 0700);
	snprintf(path + strlen(path), 8, "/%d", port);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file(path, "state", state);
	write_file(path, "rate", rate);
	write_file(path, "link_layer", "InfiniBand\n");
}

UNIT_TEST(test_ports_of_this_machine)
{
	char folder[] = "/tmp/adapters_test.XXXXXX", command[64], list[100];
	struct adapters *adapters = calloc(1, sizeof(*adapters));
	assert_non_null(mkdtemp(folder));
	write_port(folder, "mlx5_0", 1, "4: ACTIVE\n", "400 Gb/sec (4X NDR)\n");
	write_port(folder, "mlx5_1", 1, "4: ACTIVE\n", "200 Gb/sec (4X HDR)\n");
	write_port(folder, "mlx5_1", 2, "1: DOWN\n", "10 Gb/sec (4X SDR)\n");
	write_port(folder, "mlx5_2", 1, "4: ACTIVE\n", "25 Gb/sec (1X EDR)\n");
	write_port(folder, "mlx5_3", 1, "nonsense", "");
	write_port(folder, "mlx5_5", 1, "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
	for (int i = 0; i < 6; i++) {
		char name[8];
		snprintf(name, sizeof(name), "mlx5_%d", i);
		assert_int_equal(adapters_add_ports(adapters, folder, name, -1), i == 1 ? 2 : i == 4 ? 0 : 1);
	}
	assert_int_equal(adapters_select(adapters, "", ""), 0);
	adapters_list(adapters, list, sizeof(list));
	assert_string_equal(list, "mlx5_0:1,mlx5_1:1"); /* the others: down, for management, not known */
	assert_int_equal(adapters->port[0].gbits, 400);
	assert_string_equal(adapters->port[0].layer, "InfiniBand");
	assert_int_equal(adapters->port[3].use, ADAPTERS_SLOW);
	adapters_free(adapters);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}

UNIT_TEST(test_files_that_are_no_machine)
{
	char path[] = "/tmp/adapters_test.XXXXXX";
	struct adapters *adapters;
	const int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "<topology version=\"2.0\">\n<object", 32), 32);
	close(fd);
	setenv("HWLOC_HIDE_ERRORS", "2", 1);
	log_open(LOG_NONE, NULL);
	assert_int_equal(adapters_read(&(struct adapters_source){ .tree = path }, &adapters),
			 CORALE_ESETTING);
	assert_non_null(strstr(log_last_error(), path));
	assert_int_equal(adapters_read(&(struct adapters_source){ .tree = "/nowhere/x.xml" }, &adapters),
			 CORALE_ESETTING);
	log_open(LOG_WARN, NULL);
	unlink(path);
}

UNIT_TEST(test_this_machine)
{
	const struct adapters *adapters, *again;
	assert_int_equal(adapters_machine(&adapters), 0);
	assert_int_equal(adapters_machine(&again), 0);
	assert_ptr_equal(adapters, again);
	assert_true(adapters->tree[0]);
}

UNIT_TEST(test_key)
{
	if (!has_hwloc())
		return;
	struct adapters *a = read_machine("workstation"), *b = read_machine("workstation"),
			*c = read_machine("no-pci");
	assert_true(adapters_key(a) == adapters_key(b));
	assert_true(adapters_key(a) != adapters_key(c));
	assert_int_equal(adapters_select(b, "eth0", ""), 0);
	assert_true(adapters_key(a) != adapters_key(b));
	adapters_free(a);
	adapters_free(b);
	adapters_free(c);
}

/* More ports than a set holds: the rest is left out. */
UNIT_TEST(test_many_ports)
{
	struct adapters *adapters = calloc(1, sizeof(*adapters));
	const char *gpus[] = { "0000:1b:00.0" };
	struct adapters_choice choice;
	for (int i = 0; i < 100; i++) {
		struct adapters_port port = { .number = 1, .is_active = 1, .object = -1 };
		snprintf(port.name, sizeof(port.name), "mlx5_%d", 99 - i);
		adapters_add_port(adapters, &port);
	}
	assert_int_equal(adapters->nports, ADAPTERS_PORTS);
	adapters_choose(adapters, gpus, 1, 0, &choice);
	assert_int_equal(choice.rails, ADAPTERS_RAILS);
	adapters_free(adapters);
}
