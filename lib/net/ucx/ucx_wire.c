/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_worker.h"

#include "base/log.h"

const char *const ucx_scheme_names[] = { "am", "tag", "put" };

static const struct shape {
	const char *name;
	uint64_t most; /* payload in bytes */
	unsigned links;
	unsigned schemes;
	int apart; /* bytes is the length of a payload that travels apart */
	int rendezvous; /* UCX may hold the payload back until the receiver asks for it */
} shapes[UCX_KINDS] = {
	[UCX_HELLO] = { "HELLO", 0, 1, 1, 0, 0 },
	[UCX_BYE] = { "BYE", (UCX_PROBE_LINK + 1) * sizeof(struct ucx_sum), 1, 1, 0, 0 },
	[UCX_CONTROL] = { "CONTROL", TRANSPORT_CONTROL_BYTES, 1, 1, 0, 0 },
	[UCX_WANT] = { "WANT", 0, UCX_PROBE_LINK + 1, 1, 0, 0 },
	[UCX_GRANT] = { "GRANT", UCX_GRANT_BYTES, UCX_PROBE_LINK + 1, 1, 0, 0 },
	[UCX_PING] = { "PING", 0, 1, 1, 0, 0 },
	[UCX_PONG] = { "PONG", 0, 1, 1, 0, 0 },
	[UCX_MUTE] = { "MUTE", 0, 1, 1, 0, 0 },
	[UCX_SLOT] = { "SLOT", SIZE_MAX, UCX_PROBE_LINK + 1, 1, 0, 1 },
	[UCX_NOTICE] = { "NOTICE", 0, UCX_PROBE_LINK + 1, UCX_SCHEMES, 1, 0 },
	[UCX_CREDIT] = { "CREDIT", 0, UCX_PROBE_LINK + 1, 1, 0, 0 },
};

const char *ucx_wire_kind_name(const struct ucx_wire *wire)
{
	return wire->kind < UCX_KINDS ? shapes[wire->kind].name : "message of no kind";
}

const char *ucx_wire_fault(const struct ucx_wire *wire, size_t payload_bytes, int there)
{
	if (wire->kind >= UCX_KINDS)
		return "its kind is unknown";
	const struct shape *shape = &shapes[wire->kind];
	if (wire->index >= shape->links || wire->scheme >= shape->schemes)
		return "its link or scheme is out of range";
	if (!there && !shape->rendezvous)
		return "its payload must come with it";
	if (payload_bytes > shape->most || (!shape->apart && payload_bytes != wire->bytes))
		return "its payload is not as long as it should be";
	if (shape->apart && !wire->bytes)
		return "it speaks of a payload that is too small to travel apart";
	return NULL;
}

void ucx_wire_refuse(unsigned *refused, const struct ucx_wire *wire, size_t bytes, const char *why)
{
	const unsigned n = ++*refused;
	if (n > 16 && (n & (n - 1)))
		return;
	log_line(LOG_WARN, (int)wire->to,
		 "transport ucx: refused a %s (message %u refused) of %zu bytes that says it is of rank %u, "
		 "communicator %016llx, link %u, for %llu bytes: %s; it is damaged, or something else sends "
		 "to this process: see docs/security.md",
		 ucx_wire_kind_name(wire), n, bytes, wire->from, (unsigned long long)wire->comm_id,
		 wire->index, (unsigned long long)wire->bytes, why);
}
