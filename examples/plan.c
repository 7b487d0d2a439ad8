/* SPDX-License-Identifier: BSD-3-Clause */
/* corale-plan: which plan a call would get on a machine, why, and how long it should take. Needs no MPI and no GPU. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/collectives.h"
#include "base/log.h"
#include "base/types.h"
#include "cuda/engine.h"
#include "plan.h"
#include "plans/machine.h"
#include "base/settings.h"
#include "comm/tuning_file.h"

static void print_usage(FILE *out)
{
	fputs(
	    "usage: corale-plan [options] [MACHINE] [COLLECTIVE [BYTES]]\n"
	    "  MACHINE     \"node:512 gpu:8 nvlink:390 rail:50\", \"node:[8,8,4] rail:25\", \"rank:4 "
	    "memory:10\",\n"
	    "              \"gpu:4 nvlink:0 bus:50\" (GPUs that share host memory);\n"
	    "              default: one rank on each core of this machine\n"
	    "  COLLECTIVE  all_reduce (default), all_gather, reduce_scatter, broadcast, all_to_all, reduce, "
	    "send, barrier...\n"
	    "  BYTES       of one vector or block, with K, M or G (64M, 64MB); default 1M\n"
	    "  -t TYPE     float32 (default), bfloat16, ...        -o OP     sum (default), prod, min, "
	    "max, avg\n"
	    "  -r ROOT     root of a broadcast, peer of send, recv -R RANK   whose steps to print; default "
	    "0\n"
	    "  -s STEPS    how many of its steps; default 12       -n        no table of sizes\n"
	    "  -p FILE, --plot FILE   draws the steps over time as SVG\n"
	    "  --device cuda   without a MACHINE: the GPUs of this one, a rank each\n"
	    "  -P RANKS    how many ranks the picture shows; default 4\n"
	    "  --tuning FILE   rates of corale-tune, as by CORALE_TUNING\n"
	    "  --version, --help\n"
	    "CORALE_ALGO and the other settings apply as in a program.\n",
	    out);
}

static int fail(const char *what, const char *value)
{
	fprintf(stderr, "corale-plan: %s: %s\n", what, value);
	return 2;
}

/* The same, and which values are good. */
static int fail_among(const char *what, const char *value, int n, const char *(*name_of)(int))
{
	fprintf(stderr, "corale-plan: %s: %s; known:", what, value);
	for (int i = 0; i < n; i++)
		fprintf(stderr, " %s", name_of(i));
	fputc('\n', stderr);
	return 2;
}

static int read_bytes(const char *text, size_t *out)
{
	static const char units[] = "KMG"; /* each may have a B behind it */
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;
	int shift = unit ? 10 * (int)(unit - units + 1) : 0;
	end += unit != NULL;
	end += *end == 'B';
	if (end == text || *text == '-' || errno || *end || value > (UINT64_MAX >> 1) >> shift)
		return 0;
	*out = (size_t)value << shift;
	return 1;
}

/* The index of a name among n of them, or -1. */
static int find_name(const char *name, int n, const char *(*name_of)(int))
{
	for (int i = 0; i < n; i++)
		if (!strcmp(name, name_of(i)))
			return i;
	return -1;
}

static const char *coll_name(int i)
{
	return corale_coll_name((corale_coll)i);
}

static const char *type_name(int i)
{
	return corale_type_name((corale_type)i);
}

static const char *op_name(int i)
{
	return corale_op_name(i);
}

static int read_number(const char *text, int *out)
{
	char *end;
	long value = strtol(text, &end, 10);
	if (end == text || *end || value < 0 || value > INT_MAX)
		return fail("expected a number from 0 on", text);
	*out = (int)value;
	return 0;
}

/* Before anything is computed. */
static int check_writable(const char *path)
{
	FILE *file = fopen(path, "a");
	if (!file) {
		fprintf(stderr, "corale-plan: cannot write to %s: %s\n", path, strerror(errno));
		return 2;
	}
	fclose(file);
	return 0;
}

static int read_option(int option, struct plan_request *request)
{
	int found;
	switch (option) {
	case 't':
		found = find_name(optarg, CORALE_NUM_TYPES, type_name);
		request->type = (corale_type)found;
		return found < 0 ? fail_among("unknown type", optarg, CORALE_NUM_TYPES, type_name) : 0;
	case 'o':
		found = find_name(optarg, CORALE_NUM_OPS, op_name);
		request->op = found;
		return found < 0 ? fail_among("unknown operator", optarg, CORALE_NUM_OPS, op_name) : 0;
	case 'r':
		return read_number(optarg, &request->root);
	case 'R':
		return read_number(optarg, &request->rank);
	case 's':
		return read_number(optarg, &request->steps);
	case 'n':
		request->table = 0;
		return 0;
	case 'p':
		request->plot = optarg;
		return check_writable(optarg);
	case 'P':
		return read_number(optarg, &request->plot_ranks);
	default:
		print_usage(stderr);
		return 2;
	}
}

static int read_arguments(int argc, char **argv, struct plan_request *request)
{
	if (optind < argc && strchr(argv[optind], ':'))
		request->machine = argv[optind++];
	if (optind < argc) {
		int coll = find_name(argv[optind], CORALE_NUM_COLLS, coll_name);
		if (coll < 0)
			return fail_among("neither a machine nor a collective", argv[optind],
					  CORALE_NUM_COLLS, coll_name);
		request->coll = (corale_coll)coll;
		optind++;
	}
	if (optind < argc && !read_bytes(argv[optind++], &request->bytes))
		return fail("not a number of bytes (as 4096, 64K, 1MB, 2G)", argv[optind - 1]);
	if (coll_folds(request->coll) && !type_has_op(request->type, request->op))
		return fail("the type has no such operator", corale_op_name(request->op));
	return optind < argc ? fail("one argument too many", argv[optind]) : 0;
}

/* Whose machine is meant, where none is named. */
static int read_device(struct plan_request *request)
{
	request->device = !strcmp(optarg, "cuda");
	return request->device || !strcmp(optarg, "host") ? 0 : fail("neither host nor cuda", optarg);
}

static int read_command_line(int argc, char **argv, struct plan_request *request)
{
	static const struct option longs[] = {
		{ "plot", required_argument, NULL, 'p' },   { "device", required_argument, NULL, 'd' },
		{ "tuning", required_argument, NULL, 'T' }, { "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 }
	};
	int option, ret = 0;
	while (!ret && (option = getopt_long(argc, argv, "t:o:r:R:s:np:P:h", longs, NULL)) != -1) {
		if (option == 'h') {
			print_usage(stdout);
			exit(0);
		}
		if (option == 'v') {
			int version = corale_version();
			printf("corale %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
			exit(0);
		}
		if (option == 'T')
			ret = setenv("CORALE_TUNING", optarg, 1) ? fail("--tuning", strerror(errno)) : 0;
		else
			ret = option == 'd' ? read_device(request) : read_option(option, request);
	}
	return ret ? ret : read_arguments(argc, argv, request);
}

/* What a machine's text does not say: built-in rates, with those of CORALE_TUNING over them. */
struct defaults {
	struct rates_links hosts;
	struct rates gpus;
};

/* The class of the GPUs that are meant: those of this machine by the first one's name. */
static const struct rates *class_of(const struct plan_request *request)
{
	struct engine_gpu gpu;
	if (!request->device || request->machine)
		return rates_of_default_gpu();
	return rates_of_gpu(engine_process.gpu(0, &gpu) ? NULL : gpu.name);
}

/* Messages of GPUs between nodes have the rates of hosts, and the way through proxies on top, as in a communicator. */
static void use_tuned_network(const struct rates_links *hosts, struct rates_links *gpus)
{
	gpus->rail_ns = hosts->rail_ns + gpus->proxy_ns;
	gpus->rail_gbs = hosts->rail_gbs;
	gpus->send_ns = hosts->send_ns;
	gpus->recv_ns = hosts->recv_ns;
	gpus->net_gbs = hosts->net_gbs;
}

static int find_defaults(const struct plan_request *request, const struct settings *settings,
			 struct defaults *out)
{
	struct tuning tuning;
	if (tuning_load(settings, -1, &tuning))
		return 2;
	*out = (struct defaults){ *rates_of_hosts(), *class_of(request) };
	tuning_apply_links(&tuning, TUNING_HOST, &out->hosts);
	tuning_apply_links(&tuning, TUNING_NETWORK, &out->hosts);
	tuning_apply_gpus(&tuning, &out->gpus);
	if (tuning_has_section(&tuning, TUNING_NETWORK))
		use_tuned_network(&out->hosts, &out->gpus.links);
	return 0;
}

static int make_topo(const struct plan_request *request, const struct defaults *defaults, struct topo **out)
{
	char text[64], error[256];
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	if (request->device && !engine_process.available(error, sizeof error))
		return fail("--device cuda", error);
	if (request->device)
		snprintf(text, sizeof(text), "gpu:%d", engine_process.count());
	else
		snprintf(text, sizeof(text), "rank:%ld", cores > 1 ? cores : 2);
	int ret = machine_parse_with(request->machine ? request->machine : text, &defaults->hosts,
				     &defaults->gpus, out, error, sizeof(error));
	return ret ? fail("cannot read the machine", error) : 0;
}

static int check_ranks(const struct plan_request *request, const struct topo *topo)
{
	if (request->root < 0 || request->root >= topo->map.ranks)
		return fail("no such rank on this machine", "root");
	if (request->rank < 0 || request->rank >= topo->map.ranks)
		return fail("no such rank on this machine", "rank whose steps to print");
	return 0;
}

/* As uneven_as_edges: GPUs move the blocks of v-forms as messages. */
static void take_as_messages(struct plan_request *request)
{
	if (!coll_is_uneven(request->coll) || request->coll == CORALE_ALL_TO_ALL_V)
		return;
	printf("%s: GPUs run it by the messages of an all_to_all_v\n", coll_table[request->coll].name);
	request->coll = CORALE_ALL_TO_ALL_V;
}

int main(int argc, char **argv)
{
	struct plan_request request = { .coll = CORALE_ALL_REDUCE,
					.type = CORALE_FLOAT32,
					.op = CORALE_SUM,
					.bytes = 1 << 20,
					.steps = 12,
					.plot_ranks = 4,
					.table = 1 };
	const struct settings *settings;
	struct planner planner;
	struct plan_gpus gpus = { 0 };
	struct defaults defaults;
	struct topo *topo;
	char error[256];
	int ret = read_command_line(argc, argv, &request);
	if (ret)
		return ret;
	if (settings_get(&settings))
		return 2;
	if (planner_check_algo(settings->algo, error, sizeof error))
		return fail("CORALE_ALGO", error);
	ret = find_defaults(&request, settings, &defaults);
	ret = ret ? ret : make_topo(&request, &defaults, &topo);
	if (ret)
		return ret;
	ret = check_ranks(&request, topo);
	if (!ret) {
		if (plan_gpus_open(&gpus, topo, settings, &defaults.gpus, &planner))
			take_as_messages(&request);
		else
			planner_init(&planner, topo, settings);
		ret = plan_report(&request, &planner, &gpus) ? 1 : 0;
	}
	topo_destroy(topo);
	return ret;
}
