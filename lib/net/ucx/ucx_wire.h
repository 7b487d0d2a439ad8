/* SPDX-License-Identifier: BSD-3-Clause */
/* The header in front of every active message, and the check that needs no other state. */
#ifndef UCX_WIRE_H
#define UCX_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "net/transport.h"

/* What a BYE says besides. */
enum ucx_bye {
	UCX_BYE_UNDER_WAY, /* messages are still on their way */
	UCX_BYE_THROUGH, /* all messages have arrived */
	UCX_BYE_UNMET /* the answer to a greeting: this side had left before it met the peer */
};

/* How a large message travels. */
enum ucx_scheme { UCX_SCHEME_AM, UCX_SCHEME_TAG, UCX_SCHEME_PUT, UCX_SCHEMES };
extern const char *const ucx_scheme_names[];

enum ucx_kind {
	/* Notes, which may come before their communicator is open here. */
	UCX_HELLO, /* first contact: the peer makes its own endpoint, and so notices when this side dies; or answers BYE, where it has left */
	UCX_BYE, /* this side closes in order; payload: how much it has sent; number: enum ucx_bye */
	UCX_CONTROL, /* transport_ops.control */
	UCX_WANT, /* the sender asks for slots; the receiving program may not have opened the link yet */
	UCX_GRANT, /* slots are made; payload: where they are */
	/* Notes of the worker, of no communicator. */
	UCX_PING, /* the receiver answers once it has read all that came before it on this connection; number: the receiver's uid */
	UCX_PONG, /* the answer, with its number */
	UCX_MUTE, /* the sender ends, and answers nothing any more; number: its uid */
	/* Messages of links (ucx_link.h), to granted slots; number: messages of the other direction that were taken. */
	UCX_SLOT, /* a message with its payload */
	UCX_NOTICE, /* a message whose payload has been put, or comes by tag */
	UCX_CREDIT, /* messages were taken */
	UCX_KINDS
};

/* Up to so many bytes the payload travels with the message, and the receiver copies it. */
enum { UCX_EAGER_BYTES = 64 << 10 };
/* The most that a GRANT carries: the packed key is some hundred bytes at most. */
enum { UCX_GRANT_BYTES = 4096 };
/* Probes travel on a link of their own, which the peer serves without its user's help. */
enum { UCX_PROBE_LINK = TRANSPORT_MAX_LINKS };

/* Payload of a BYE, one for each link that was used. */
struct ucx_sum {
	uint64_t index, posted; /* messages */
};

/* Payload of a GRANT; the packed key follows. */
struct ucx_grant {
	uint64_t address, tag; /* of message k's payload by tag: tag + k */
	uint64_t depth, slot_bytes;
};

struct ucx_wire {
	uint64_t comm_id;
	uint32_t from, to; /* ranks */
	uint32_t sequence; /* of a link's messages; wraps */
	uint16_t index;
	uint8_t kind, scheme;
	uint64_t bytes; /* of the message's payload; NOTICE: of the one that travels apart */
	uint64_t number; /* meaning: see the kind */
	unsigned char header[TRANSPORT_HEADER_BYTES];
};

/* Why Corale cannot have sent this message, or NULL. there: its payload has arrived, not only a descriptor of UCX's. */
const char *ucx_wire_fault(const struct ucx_wire *wire, size_t payload_bytes, int there);
const char *ucx_wire_kind_name(const struct ucx_wire *wire);
/* Logs and counts a message that nobody awaits, and which is dropped; few lines for many messages. */
void ucx_wire_refuse(unsigned *refused, const struct ucx_wire *wire, size_t bytes, const char *why);

#endif
