/* SPDX-License-Identifier: BSD-3-Clause */
/* corale-info: what Corale is, how it was built, how it is set, and what it sees and can use on this machine. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif

#include "build_info.h"
#include "info.h"
#include "cuda/engine.h"
#include "base/log.h"
#include "reduce/reduce.h"
#include "base/settings.h"
#include "base/status.h"
#include "comm/transport_rows.h"
#include "comm/tuning_file.h"
#include "plan/machine/topo.h"

static void print_version(void)
{
	int version = corale_version();

	printf("corale %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
}

static void print_build(void)
{
	heading("Build");
	line("compiler", BUILD_COMPILER " " BUILD_CFLAGS);
#ifdef __VERSION__
	line("compiler version", __VERSION__);
#endif
	line("hwloc", BUILD_HWLOC);
	line("UCX", BUILD_UCX);
	line("MPI (libcorale_mpi)", BUILD_MPI);
	line("CUDA", BUILD_CUDA);
	line("sanitizer", BUILD_SANITIZER);
}

/* Returns the status of reading the settings, whose errors have been logged. */
static int print_settings(const struct settings **settings)
{
	size_t position = 0;
	char name[64], text[300];
	const char *nearest;
	int ret = settings_get(settings);

	heading("Settings (environment variables)");
	if (ret)
		line("unusable",
		     "every call that creates a communicator fails until the errors above are corrected");
	for (int i = 0; !ret && i < settings_count(); i++) {
		int set = settings_value(*settings, i, text, sizeof(text)) == SETTINGS_ENVIRONMENT;
		if (settings_is_for_tests(i) && !set)
			continue;
		printf("  %-24s %-16s %s\n", settings_row(i)->name, text[0] ? text : "\"\"",
		       set ? "environment" : "default");
	}
	while (settings_next_unknown(settings_environment(), &position, name, &nearest))
		printf("  %-24s unknown, ignored%s%s%s\n", name, nearest ? ": did you mean " : "",
		       nearest ? nearest : "", nearest ? "?" : "");
	return ret;
}

#ifdef HAVE_HWLOC
static void print_hwloc(void)
{
	hwloc_topology_t topology;
	char text[64];

	if (hwloc_topology_init(&topology))
		return;
	if (!hwloc_topology_load(topology)) {
		int packages = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
		int numa = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
		int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
		snprintf(text, sizeof(text), "%d packages, %d NUMA nodes, %d cores", packages, numa, cores);
		line("processors", text);
	}
	hwloc_topology_destroy(topology);
}
#else
static void print_hwloc(void)
{
	line("NUMA nodes", "not known: corale-info was built without hwloc");
}
#endif

/* Of a PCI device; -1: none, or not known. */
static int numa_of(const char *pci)
{
	char path[128];
	int node = -1;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", pci);
	for (char *c = path; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	FILE *file = fopen(path, "r");
	if (file && fscanf(file, "%d", &node) != 1)
		node = -1;
	if (file)
		fclose(file);
	return node;
}

/* links: of GPU i to each. */
static void print_gpu(int i, int count, const enum engine_link *links)
{
	static const char *const names[] = { "not reached", "not known", "over the bus", "NVLink" };
	struct engine_gpu gpu;
	char name[32], text[512];
	int at, node;

	snprintf(name, sizeof(name), "  GPU %d", i);
	if (engine_process.gpu(i, &gpu)) {
		line(name, "it does not say what it is");
		return;
	}
	at = snprintf(text, sizeof(text), "%s, %.1f GiB, PCI %s, rates of %s", gpu.name,
		      (double)gpu.bytes / (1024.0 * 1024 * 1024), gpu.pci, rates_of_gpu(gpu.name)->name);
	node = numa_of(gpu.pci);
	if (node >= 0)
		at += snprintf(text + at, sizeof(text) - (size_t)at, ", NUMA node %d", node);
	for (int to = 0; to < count && at < (int)sizeof(text) - 32; to++)
		if (to != i)
			at += snprintf(text + at, sizeof(text) - (size_t)at, "; GPU %d %s", to,
				       names[links[to]]);
	line(name, text);
}

/* What a communicator on all GPUs chooses (lib/comm/gpu_links.c). */
static void print_protocol(int count, const enum engine_link *links, const struct settings *settings)
{
	static const char *const why[] = { "can't reach each other's memory",
					   "may have no NVLink between them", "have no NVLink between them" };
	char text[128];
	int worst = 0;

	for (int i = 1; i < count * count; i++)
		worst = links[i] < links[worst] ? i : worst;
	const int whole = links[worst] == ENGINE_NVLINK, forced = plan_words_forced(settings);
	int at = snprintf(text, sizeof(text), "%s",
			  links[worst] == ENGINE_NO_LINK ? "no communicator has all of them"
			  : whole && !forced             ? "lines of 128 bytes (LL128)"
							 : "words of 8 bytes (LL)");
	if (!whole)
		snprintf(text + at, sizeof(text) - (size_t)at, ": GPUs %d and %d %s", worst / count,
			 worst % count, why[links[worst]]);
	else if (forced)
		snprintf(text + at, sizeof(text) - (size_t)at, ": CORALE_PROTO=LL");
	line("  small messages", text);
}

static void print_gpus(const struct settings *settings)
{
	char text[256];
	int driver = 0, runtime = 0, count = 0;
	enum engine_link *links;

	if (engine_process.available(text, sizeof(text))) {
		count = engine_process.count();
		engine_process.versions(&driver, &runtime);
		snprintf(text, sizeof(text), "%d seen by this process; driver of CUDA %d.%d, runtime %d.%d",
			 count, driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
	}
	line("GPUs", text);
	links = calloc((size_t)(count * count) + 1, sizeof(*links));
	if (!count || !links) {
		free(links);
		return;
	}
	engine_process.gpu_links(count, links);
	for (int i = 0; i < count; i++)
		print_gpu(i, count, links + i * count);
	print_protocol(count, links, settings);
	free(links);
}

static void print_machine(const struct settings *settings)
{
	static const char *const levels[] = { "baseline", "AVX2", "AVX-512" };
	struct utsname system;
	cpu_set_t set;
	char text[128];
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	heading("This machine");
	if (!uname(&system)) {
		line("host", system.nodename);
		snprintf(text, sizeof(text), "%.40s %.60s", system.sysname, system.release);
		line("kernel", text);
	}
	if (sched_getaffinity(0, sizeof(set), &set))
		snprintf(text, sizeof(text), "%ld online", online);
	else
		snprintf(text, sizeof(text), "%d usable by this process, of %ld online", CPU_COUNT(&set),
			 online);
	line("cores", text);
	print_hwloc();
	line("vector instructions", levels[reduce_level()]);
	print_gpus(settings);
}

static void print_engines(const struct settings *settings)
{
	char text[256];

	heading("Engines and what they need");
	line("host", "used for host memory");
	info_probe_memfd(text, sizeof(text));
	line("  shared windows (memfd)", text);
	info_probe_reference(text, sizeof(text));
	if (settings->reference == SETTINGS_NO)
		snprintf(text, sizeof(text), "not used: CORALE_REFERENCE=no");
	line("  process_vm_readv", text);
	info_ways();
	line("cuda", engine_process.available(text, sizeof(text)) ? "available" : text);
}

void info_transports(const struct settings *settings)
{
	const struct transport_row *row;

	heading("Transports between nodes");
	for (int i = 0; (row = transport_row_at(i, NULL)); i++) {
		char text[256], why_not[256];
		int wanted = transport_is_wanted(settings, row),
		    usable = row->probe(row, 0, why_not, sizeof(why_not)) != 0;
		snprintf(text, sizeof(text), "not used: CORALE_TRANSPORT=%s", settings->transport);
		line(row->name, !usable ? why_not : wanted ? "used" : text);
		if (usable && wanted && row->devices && !row->devices(settings, text, sizeof(text)))
			line("  network devices", text);
		if (usable && wanted && row->gpudirect && !row->gpudirect(settings, text, sizeof(text)))
			line("  GPUDirect RDMA", text);
	}
}

/* What plans between nodes reckon with on hosts; machine keys of corale-plan, too. */
static void print_rates(const struct settings *settings, const struct tuning *tuning)
{
	const char *wanted = settings->net_rates, *origin = "by CORALE_NET_RATES";
	char rates[200], error[256];
	struct rates_links links = *rates_of_hosts();
	struct topo *topo;

	heading("What a message between nodes costs");
	if (topo_create(2, (const uint64_t[]){ 0, 1 }, &topo))
		return;
	if (!strcmp(wanted, "auto") && tuning_has_section(tuning, TUNING_NETWORK)) {
		tuning_apply_links(tuning, TUNING_NETWORK, &links);
		topo_set_hosts(topo, &links);
		origin = "by CORALE_TUNING";
	} else if (!strcmp(wanted, "auto"))
		origin = "built-in; the first communicator over nodes measures (CORALE_DEBUG=info prints it)";
	else if (!strcmp(wanted, "built-in"))
		origin = "built-in";
	else if (topo_parse_rails(wanted, topo, error, sizeof(error)))
		origin = error;
	topo_print_rails(topo, rates, sizeof(rates));
	line("rates", rates);
	line("from", origin);
	topo_destroy(topo);
}

/* is_broken: the file's error has been logged. */
static void print_tuning(const struct settings *settings, const struct tuning *tuning, int is_broken)
{
	struct engine_gpu gpu;
	const int has_gpu = engine_process.count() > 0 && !engine_process.gpu(0, &gpu);
	const struct rates *gpus = has_gpu ? rates_of_gpu(gpu.name) : rates_of_default_gpu();
	char text[64];

	heading("Rates of CORALE_TUNING");
	line("file", settings->tuning[0] ? settings->tuning : "none: rates are built in or measured");
	if (is_broken)
		line(
		    "unusable",
		    "every call that creates a communicator fails until the file is corrected or the setting "
		    "unset");
	if (!tuning->given)
		return;
	snprintf(text, sizeof(text), "%016llx", (unsigned long long)tuning_hash(tuning));
	line("hash", text);
	for (int i = 0; i < tuning_count(); i++) {
		const double built_in = tuning_built_in(i, gpus);
		if (!tuning_has(tuning, i) || tuning->value[i] == built_in)
			continue;
		snprintf(text, sizeof(text), "%g (built in: %g)", tuning->value[i], built_in);
		line(tuning_name(i), text);
	}
}

/* The table of docs/settings.md. */
static void print_markdown(void)
{
	printf("| variable | values | default | all ranks | |\n|---|---|---|---|---|\n");
	for (int i = 0; i < settings_count(); i++) {
		const struct settings_row *row = settings_row(i);
		if (settings_is_for_tests(i))
			continue;
		printf("| `%s` | %s | %s | %s | %s |\n", row->name, row->values, row->fallback,
		       row->shared ? "yes" : "", row->help);
	}
}

static void print_usage(FILE *to)
{
	fprintf(
	    to,
	    "Usage: corale-info [--net] [--settings-markdown] [--version] [--help]\n"
	    "Says how Corale was built and is set, and what it sees and can use on this machine.\n"
	    "--net: GPUs, RDMA adapters and the paths between them, which adapter each GPU uses, and what "
	    "is slow.\n"
	    "Exit status: 0; 1 if a setting is malformed; 2 for wrong arguments.\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "net", no_argument, NULL, 'n' },
		{ "settings-markdown", no_argument, NULL, 's' },
		{ "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const char *const none[] = { NULL };
	const struct settings *settings = NULL;
	struct settings defaults;
	struct tuning tuning;
	int option = getopt_long(argc, argv, "", options, NULL);

	if (option == '?' || optind < argc) {
		print_usage(stderr);
		return 2;
	}
	if (option == 'n')
		return info_net();
	if (option == 's')
		print_markdown();
	if (option == 'v')
		print_version();
	if (option == 'h')
		print_usage(stdout);
	if (option != -1)
		return 0;
	print_version();
	print_build();
	int ret = print_settings(&settings);
	if (ret && settings_parse((char *const *)none, &defaults))
		return 1;
	if (ret)
		settings = &defaults;
	print_machine(settings);
	print_engines(settings);
	info_transports(settings);
	const int is_broken = tuning_load(settings, -1, &tuning);
	print_rates(settings, &tuning);
	print_tuning(settings, &tuning, is_broken);
	return ret || is_broken || transport_check_wanted(settings, -1) ? 1 : 0;
}
