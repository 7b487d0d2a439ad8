/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/cuda/trace_nvtx.c with a tool that this test itself is, and without: what a range costs then. */
#define _GNU_SOURCE
#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/clock.h"
#include "test/helpers/unit.h"
#include "cuda/trace.h"

/* ---- The tool: notes what it is told ---------------------------------------------------------------------- */

enum { MOST_NAMES = 256, CALLS = 20000000 };

static char domain[32], names[MOST_NAMES][64];
static int tool_wanted, known, depth;
static const char *pushed;
static uint64_t payload;

static nvtxDomainHandle_t NVTX_API create_domain(const char *name)
{
	snprintf(domain, sizeof domain, "%s", name);
	return (nvtxDomainHandle_t)domain;
}

static void NVTX_API destroy_domain(nvtxDomainHandle_t which)
{
	domain[0] = '\0';
}

static nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t which, const char *text)
{
	snprintf(names[known], sizeof names[known], "%s", text);
	return (nvtxStringHandle_t)names[known++];
}

static int NVTX_API push(nvtxDomainHandle_t which, const nvtxEventAttributes_t *range)
{
	pushed = (const char *)range->message.registered;
	payload = range->payload.ullValue;
	return depth++;
}

static int NVTX_API pop(nvtxDomainHandle_t which)
{
	return --depth;
}

static int NVTX_API start_tool(NvtxGetExportTableFunc_t export_table)
{
	const NvtxExportTableCallbacks *callbacks = export_table(NVTX_ETID_CALLBACKS);
	NvtxFunctionTable table;
	unsigned size;
	if (!tool_wanted || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
		return 0;
	*table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
	*table[NVTX_CBID_CORE2_DomainDestroy] = (NvtxFunctionPointer)destroy_domain;
	*table[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)register_string;
	*table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
	*table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
	return 1;
}
/* NVTX looks for a tool that is linked into the program under this name. */
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = start_tool;

/* ---- The cases: NVTX looks for its tool once a process, so each has its own --------------------------------- */

static void in_child(void (*run)(void))
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		unsetenv("NVTX_INJECTION64_PATH");
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "expected: %s\n", what);
	_exit(1);
}

static void with_tool(void)
{
	tool_wanted = 1;
	struct trace *trace = trace_open();
	expect(trace != NULL && strcmp(domain, "corale") == 0, "a domain named corale");
	trace_begin(trace, CORALE_ALL_REDUCE, &two_shot_codelet, 1 << 20);
	expect(depth == 1 && strcmp(pushed, "all_reduce two_shot") == 0, "a range all_reduce two_shot");
	expect(payload == 1 << 20, "its bytes");
	trace_begin(trace, CORALE_SEND, &p2p_codelet, 8);
	expect(depth == 2 && strcmp(pushed, "sends and receives") == 0 && payload == 8, "a range within it");
	trace_end(trace);
	trace_end(trace);
	expect(depth == 0, "both ranges ended");
	trace_close(trace);
	expect(domain[0] == '\0', "the domain given back");
}

UNIT_TEST(test_ranges)
{
	in_child(with_tool);
}

static void without_tool(void)
{
	struct trace *volatile trace = trace_open();
	expect(trace == NULL, "no trace without a tool");
	const int64_t begin = clock_ns();
	for (int i = 0; i < CALLS; i++) {
		trace_begin(trace, CORALE_ALL_REDUCE, &one_shot_codelet, (uint64_t)i);
		trace_end(trace);
	}
	double ns = (double)(clock_ns() - begin) / CALLS;
	printf("# a range without a tool: %.2f ns\n", ns);
	fflush(stdout);
	expect(ns < 10, "less than 10 ns a range");
	trace_close(trace);
}

UNIT_TEST(test_no_tool)
{
	in_child(without_tool);
}
