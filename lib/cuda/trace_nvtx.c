/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_BYTES = 64 };

/* Texts are handed over once: a range then costs no formatting. */
struct trace {
	nvtxDomainHandle_t domain;
	nvtxStringHandle_t names[CORALE_NUM_COLLS][CODELETS];
};

static void register_name(struct trace *trace, int coll, int codelet)
{
	char name[NAME_BYTES];
	if (coll == CORALE_SEND || coll == CORALE_RECV)
		snprintf(name, sizeof name, "sends and receives");
	else
		snprintf(name, sizeof name, "%s %s", corale_coll_name((corale_coll)coll),
			 codelet_list[codelet]->name);
	trace->names[coll][codelet] = nvtxDomainRegisterStringA(trace->domain, name);
}

struct trace *trace_open(void)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("corale"); /* NULL: no tool */
	struct trace *trace = domain ? malloc(sizeof *trace) : NULL;
	if (!trace) {
		if (domain)
			nvtxDomainDestroy(domain);
		return NULL;
	}
	trace->domain = domain;
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		for (int codelet = 0; codelet < CODELETS; codelet++)
			register_name(trace, coll, codelet);
	return trace;
}

void trace_close(struct trace *trace)
{
	if (!trace)
		return;
	nvtxDomainDestroy(trace->domain);
	free(trace);
}

void trace_begin(struct trace *trace, corale_coll coll, const struct codelet *codelet, uint64_t bytes)
{
	if (!trace)
		return;
	nvtxEventAttributes_t range = { .version = NVTX_VERSION,
					.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
					.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
					.payload.ullValue = bytes,
					.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
					.message.registered = trace->names[coll][codelet->index] };
	nvtxDomainRangePushEx(trace->domain, &range);
}

void trace_end(struct trace *trace)
{
	if (trace)
		nvtxDomainRangePop(trace->domain);
}
