/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of corale-plan in words and numbers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/collectives.h"
#include "plan.h"
#include "plans/plan_print.h"
#include "plan/choose/planner.h"
#include "base/text.h"
#include "plans/planned.h"

enum { MOST_SIMULATED = 3000000, TEXT_BYTES = 16384 };

static size_t count_of(const struct plan_request *request)
{
	return request->bytes / corale_type_bytes(request->type);
}

const char *plan_time_text(double ns, char *buf, size_t bytes)
{
	if (ns < 1e6)
		snprintf(buf, bytes, "%.1f us", ns / 1e3);
	else
		snprintf(buf, bytes, "%.*f ms", ns < 1e7 ? 2 : ns < 1e8 ? 1 : 0, ns / 1e6);
	return buf;
}

const char *plan_bytes_text(size_t bytes, char *buf, size_t room)
{
	static const char units[] = " KMG";
	int unit = 0;
	while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(buf, room, "%zu%.1s", bytes, unit ? units + unit : "");
	return buf;
}

static void print_machine(const struct plan_request *request, const struct topo *topo)
{
	printf("machine: %s\n", request->machine ? request->machine : "this one, a rank on each core");
	printf("  %d ranks on %d nodes; in a node %.3g us and %.4g GB/s", topo->map.ranks, topo->map.nodes,
	       topo->node.latency_ns / 1e3, topo->node.bytes_per_ns);
	if (topo->map.nodes > 1) {
		char rails[160];
		topo_print_rails(topo, rails, sizeof(rails));
		printf("; between nodes %s", rails);
	}
	printf("\n\n");
}

static void print_actions(const struct plan_request *request, const struct topo *topo,
			  const struct plan *plan)
{
	struct plan_env env;
	struct plan_action action;
	char text[256];
	printf("rank %d, channel 0:\n", request->rank);
	for (int p = 0; p < plan->nprograms; p++) {
		struct plan_cursor cursor;
		long n = 0;
		plan_env_init(&env, plan, &topo->map, request->rank, request->root, count_of(request));
		plan_cursor_start(&cursor, plan, p);
		for (; plan_cursor_next(&cursor, plan, &env, &action); n++) {
			if (n >= request->steps)
				continue;
			plan_print_action(&action, text, sizeof(text));
			printf("  program %d, %2ld: %s\n", p, n + 1, text);
		}
		printf("  program %d: %ld steps\n", p, n);
	}
	printf("\n");
}

static int plot(const struct plan_request *request, const struct plan *plan, const struct sim_result *result,
		int ranks)
{
	char title[160], bytes[32];
	int rows;
	const struct row *algo = row_table(&rows);
	snprintf(title, sizeof(title), "%s of %s by %s, %s", corale_coll_name(request->coll),
		 plan_bytes_text(request->bytes, bytes, sizeof(bytes)), algo[plan->algo].name,
		 request->machine ? request->machine : "this machine");
	int ret = plan_plot(request->plot, plan, result, ranks, title);
	if (ret)
		fprintf(stderr, "corale-plan: cannot write %s: %s\n", request->plot, strerror(errno));
	else
		printf("drawn:      %s (ranks 0 to %d)\n", request->plot, ranks - 1);
	return ret;
}

/* Fails where a picture was asked for and there is none. */
static int print_simulation(const struct plan_request *request, const struct topo *topo,
			    const struct plan *plan)
{
	struct sim_result result;
	char ns[32], bytes[32];
	int ranks = request->plot_ranks < topo->map.ranks ? request->plot_ranks : topo->map.ranks;
	struct sim_options options = { .count = count_of(request),
				       .root = request->root,
				       .record_ranks = request->plot ? ranks : 0,
				       .most_actions = MOST_SIMULATED };
	int ret = sim_run(topo, plan, &options, &result);
	if (ret == CORALE_ENOTSUP)
		printf("simulated:  not this time, it takes more than %d steps of all ranks\n",
		       MOST_SIMULATED);
	else if (ret)
		printf("simulated:  failed, %s\n", corale_strerror(ret));
	if (ret) {
		if (request->plot)
			fprintf(stderr, "corale-plan: nothing simulated, so nothing drawn; try a smaller "
					"machine or call\n");
		return request->plot ? ret : 0;
	}
	printf("simulated:  %s, %ld steps of all ranks", plan_time_text(result.ns, ns, sizeof(ns)),
	       result.actions);
	if (topo->map.nodes > 1)
		printf(", up to %s bytes a rank between nodes",
		       plan_bytes_text((size_t)result.rail_bytes, bytes, sizeof(bytes)));
	printf("\n");
	ret = request->plot ? plot(request, plan, &result, ranks) : 0;
	sim_result_free(&result);
	return ret;
}

static void print_times(const struct plan_request *request, const struct planner *planner,
			const struct plan *plan)
{
	char ns[32], least[32];
	double model = cost_of_plan(planner->topo, plan, count_of(request));
	double bound = cost_lower_bound(planner->topo, request->coll, request->bytes);
	printf("modelled:   %s; no schedule on these links takes less than %s",
	       plan_time_text(model, ns, sizeof(ns)), plan_time_text(bound, least, sizeof(least)));
	printf(bound > 0 ? " (%.2f times that)\n" : "\n", model / bound);
}

/* One line: the time of each algorithm, with a star at the one that is taken. */
static void print_size(const struct plan_request *request, const struct planner *planner,
		       const struct choices *list, size_t bytes)
{
	int rows;
	const struct row *algo = row_table(&rows);
	const struct row *taken = choices_find(list, bytes)->row;
	char text[64];
	struct plan plan;
	size_t count = bytes / corale_type_bytes(request->type);
	struct plan_key key = planner_key(request->coll, count, request->type, request->op);
	printf("%8s  %12s", plan_bytes_text(bytes, text, sizeof(text)),
	       plan_time_text(cost_lower_bound(planner->topo, request->coll, bytes), text + 32, 32));
	for (int row = 0; row < rows; row++) {
		if (algo[row].coll != request->coll || algo[row].codelet)
			continue;
		if (planner_build(planner, &key, row, &plan)) {
			printf("  %14s", "-");
			continue;
		}
		plan_time_text(cost_of_plan(planner->topo, &plan, count), text, 32);
		printf("  %13s%s", text, taken == &algo[row] ? "*" : " ");
	}
	printf("\n");
}

static void print_table(const struct plan_request *request, const struct planner *planner,
			const struct choices *list)
{
	int rows;
	const struct row *algo = row_table(&rows);
	printf("\n%8s  %12s", "bytes", "lower bound");
	for (int row = 0; row < rows; row++)
		if (algo[row].coll == request->coll && !algo[row].codelet)
			printf("  %14s", algo[row].name);
	printf("\n");
	for (size_t bytes = 8; bytes <= (size_t)1 << 30; bytes *= 8)
		print_size(request, planner, list, bytes);
	printf("* is taken; - does not apply here\n");
}

static void print_list(const char *memory, const struct choices *list)
{
	char text[2048];
	choices_print(list, text, sizeof text);
	printf("choices:    %s%s\n", memory, text);
}

/* What runs calls of all sizes, of a block or vector. */
static void print_choices(const struct plan_request *request, const struct planner *planner,
			  const struct plan_lists *lists)
{
	const struct gpu_machine *machine = planner->machine;
	if (coll_is_pair(request->coll) || !coll_has_count(request->coll))
		return;
	if (!machine || machine->over_nodes || machine->host_window) {
		print_list("", &lists->plain);
		return;
	}
	print_list("plain memory: ", &lists->plain);
	print_list("registered memory: ", &lists->registered);
}

/* What the library's lists say of the machine's calls, and of this one its plan. */
static int make_plan(const struct plan_request *request, const struct planner *planner, int gpus,
		     struct plan_lists *lists, struct plan *plan, char *error, size_t error_bytes)
{
	const struct plan_key key = planner_key(request->coll, count_of(request), request->type, request->op);
	int ret =
	    gpus ? plan_gpus_lists(request, planner, lists, error, error_bytes)
		 : choices_of(planner, request->coll, request->type, 0, &lists->plain, error, error_bytes);
	if (ret)
		return ret;
	const struct row_choice *choice = choices_find(
	    &lists->plain,
	    coll_has_count(request->coll) ? count_of(request) * corale_type_bytes(request->type) : 0);
	if (choice->row && choice->row->codelet)
		return plan_gpus_plan(request, planner, choice, &key, plan, error, error_bytes);
	return choice->row ? choices_build(planner, choice, &key, plan)
			   : planner_plan(planner, &key, NULL, plan, error, error_bytes);
}

/* What became of a row: its time, or why it was out. */
static size_t explain_row(const struct planner *planner, const struct plan_key *key, int row, char *buf,
			  size_t bytes)
{
	const struct row *algo = row_table(&(int){ 0 }) + row;
	struct plan plan;
	int n;
	if (!planner_algo_allows(planner->algo, row))
		n = snprintf(buf, bytes, ", %s (CORALE_ALGO forbids it)", algo->name);
	else if (planner->reproducible && !(algo->traits & ROW_ALL_AT_ONCE))
		n = snprintf(buf, bytes, ", %s (not in rank order, which CORALE_REPRODUCIBLE demands)",
			     algo->name);
	else if (planner_build(planner, key, row, &plan))
		n = 0;
	else
		n = text_format(buf, bytes, ", %s %.1f us", algo->name,
				cost_of_plan(planner->topo, &plan, planner_class_count(key)) / 1000);
	return n > 0 ? (size_t)n : 0;
}

/* Why this plan: its algorithm, the lower bound, and what the others would cost or why they are out. One line without
 * its end; returns the length it needs, like snprintf. */
static size_t explain(const struct planner *planner, const struct plan *plan, char *buf, size_t bytes)
{
	int rows;
	const struct row *algo = row_table(&rows);
	const struct plan_key *key = &plan->key;
	size_t most = (size_t)1 << key->size_class, length;
	int n = text_format(
	    buf, bytes, "%s of %s, up to %zu bytes: %s, %d channels, chunks of %u bytes; at least %.1f us",
	    corale_coll_name((corale_coll)key->coll), corale_type_name((corale_type)key->type), most,
	    algo[plan->algo].name, plan->channels, plan->chunk_bytes,
	    cost_lower_bound(planner->topo, (corale_coll)key->coll, most) / 1000);
	length = n > 0 ? (size_t)n : 0;
	for (int row = 0; row < rows; row++) {
		int room = length < bytes;
		if (algo[row].coll == key->coll && !algo[row].codelet)
			length += explain_row(planner, key, row, room ? buf + length : NULL,
					      room ? bytes - length : 0);
	}
	return length;
}

int plan_report(const struct plan_request *request, const struct planner *planner,
		const struct plan_gpus *gpus)
{
	char *text = malloc(TEXT_BYTES);
	struct plan_lists lists;
	struct plan plan;
	if (!text)
		return CORALE_ENOMEM;
	int ret = make_plan(request, planner, gpus->used, &lists, &plan, text, TEXT_BYTES);
	if (ret) {
		fprintf(stderr, "corale-plan: %s\n", text);
		free(text);
		return ret;
	}
	print_machine(request, planner->topo);
	if (gpus->used)
		plan_gpus_print(request, planner, &lists, &plan);
	plan_print(&plan, text, TEXT_BYTES);
	printf("%s\n", text);
	if (request->steps > 0)
		print_actions(request, planner->topo, &plan);
	if (plan.codelet && plan.protocol != PLAN_GRANTED) {
		plan_gpus_print_times(request, planner, &lists);
	} else {
		explain(planner, &plan, text, TEXT_BYTES);
		printf("why:        %s\n", text);
		print_times(request, planner, &plan);
	}
	print_choices(request, planner, &lists);
	plan_gpus_print_room(planner);
	if (!plan.codelet || request->plot) /* of a codelet the rates are measured */
		ret = print_simulation(request, planner->topo, &plan);
	if (request->table && plan.codelet && plan.protocol != PLAN_GRANTED)
		plan_gpus_print_table(request, planner, &lists);
	else if (request->table && request->coll != CORALE_BARRIER)
		print_table(request, planner, &lists.plain);
	free(text);
	return ret;
}
