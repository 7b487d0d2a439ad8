/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_rank.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/wait.h"
#include "corale.h"

/* A listener's kernel takes a connection at once, whatever its process does; the handshake needs the process. */
static const int64_t LONGEST_PAUSE = 500000000, CONNECT_NS = 7000000000, HANDSHAKE_NS = 10000000000,
		     ENDED_EARLIER_NS = 4500000000 /* of the 5 s for an id of which nobody knows */;

/* True if the listener may come later than this rank. */
static int may_come(const struct boot_rank *b, enum rank_trouble kind)
{
	if (kind == RANK_BROKEN || b->id.flags == BOOT_ID_ADDRESS)
		return 1;
	return kind == RANK_UNKNOWN && b->id.flags == BOOT_ID_CHILD;
}

/* The address is one that leads each host, and each network namespace, to itself. */
static int is_loopback(const struct boot_address *a)
{
	static const unsigned char v6[16] = { [15] = 1 };
	return a->family == 4 ? a->ip[0] == 127 : !memcmp(a->ip, v6, sizeof(v6));
}

/* Nobody has the id at a loopback address: on another host that is no wonder, so the id need not be stale. */
static int give_up_loopback(struct boot_rank *b)
{
	if (b->id.host[0] && strncmp(b->id.host, b->self.host, sizeof(b->id.host) - 1) != 0)
		return rank_fail(b, CORALE_EPEER,
				 "rank %d on host %s: %s. The id was made on host %s, at that loopback "
				 "address: it leads ranks of other hosts to themselves. NCCL_SOCKET_IFNAME "
				 "chooses the interface of the process that makes the id",
				 b->base.rank, b->self.host, b->last_failure, b->id.host);
	return rank_fail(b, CORALE_EPEER,
			 "stale id: %s. The id was made at that loopback address on host %s; this is rank "
			 "%d on host %s. Either the process that made the id has ended (it must run until "
			 "the group has ended, and an id serves one group), or the two are in containers "
			 "or on hosts with networks of their own (NCCL_SOCKET_IFNAME chooses the interface)",
			 b->last_failure, b->id.host[0] ? b->id.host : "?", b->base.rank, b->self.host);
}

static int give_up(struct boot_rank *b, enum rank_trouble kind)
{
	char where[BOOT_ADDRESS_TEXT];
	boot_address_text(&b->id.address, where);
	b->base.lost = b->id.flags & BOOT_ID_CHILD ? 0 : -1;
	if (b->id.flags & BOOT_ID_CHILD)
		return rank_fail(
		    b, CORALE_EPEER,
		    "rank 0 of the new communicator, on host %s, has ended or can't be reached: %s",
		    b->id.host, b->last_failure);
	if (kind == RANK_UNREACHABLE)
		return rank_fail(b, CORALE_EPEER,
				 "rank %d on host %s %s; the process%s%s that made the id must be reachable "
				 "from there (NCCL_SOCKET_IFNAME chooses its interface)",
				 b->base.rank, b->self.host, b->last_failure,
				 b->id.host[0] ? " on host " : "", b->id.host);
	if (is_loopback(&b->id.address) && kind == RANK_NOBODY)
		return give_up_loopback(b);
	return rank_fail(
	    b, CORALE_EPEER,
	    "stale id: %s, where the id says that it was made (%s%s%s). The process that made the id "
	    "must run until the group has ended, and an id serves one group: make a new one",
	    b->last_failure, where, b->id.host[0] ? " on host " : "", b->id.host);
}

int rank_try_later(struct boot_rank *b, enum rank_trouble kind, const char *text)
{
	int64_t now = wait_now_ns();
	snprintf(b->last_failure, sizeof(b->last_failure), "%s", text);
	dial_close(&b->dial);
	b->tried_at = now;
	b->nobody = kind == RANK_NOBODY;
	/* the listener of a child's first rank was there when the parent was made */
	const int has_ended = kind == RANK_NOBODY && b->id.flags == BOOT_ID_CHILD;
	if (!may_come(b, kind) && now >= b->stale_at - (has_ended ? ENDED_EARLIER_NS : 0))
		return give_up(b, kind);
	dial_later(&b->dial, LONGEST_PAUSE);
	return 0;
}

/* error 0: no answer, as a firewall, or a network that this host is not part of, loses packets on the way. */
int rank_connect_failed(struct boot_rank *b, int error)
{
	char text[RANK_TEXT_BYTES], where[BOOT_ADDRESS_TEXT];
	boot_address_text(&b->id.address, where);
	if (error == ECONNREFUSED) {
		snprintf(text, sizeof(text), "nobody listens at %s", where);
		return rank_try_later(b, RANK_NOBODY, text);
	}
	snprintf(text, sizeof(text), "cannot connect to %s: %s", where,
		 error ? strerror(error) : "no answer");
	int has_no_route = !error || error == ENETUNREACH || error == EHOSTUNREACH;
	return rank_try_later(b, has_no_route ? RANK_UNREACHABLE : RANK_BROKEN, text);
}

int rank_connect(struct boot_rank *b)
{
	struct boot_dial *d = &b->dial;
	const enum boot_dial_state before = d->state;
	const int error = dial_advance(d, &b->id.address);
	if (error && d->fd < 0)
		return rank_fail(b, CORALE_ESYSTEM, "cannot make a TCP socket: %s", strerror(error));
	if (error)
		return rank_connect_failed(b, error);
	if (d->state != before)
		d->ends = wait_now_ns() + (d->state == DIAL_CONNECTING ? CONNECT_NS : HANDSHAKE_NS);
	return 0;
}

/* ---- The handshake */

static int take_challenge(struct boot_rank *b)
{
	const int ret = dial_prove(&b->dial, b, &b->id);
	if (ret == CORALE_EINVAL)
		return rank_try_later(b, RANK_NOBODY, "another program listens");
	if (ret == CORALE_ESYSTEM)
		return rank_fail(b, ret, "no random bytes");
	/* The listener's process may be starved. It may count this rank in already, and would take the end of this connection for the rank's death. */
	b->dial.ends = INT64_MAX;
	return ret ? rank_fail(b, ret, "no memory for a message") : 0;
}

static int take_refusal(struct boot_rank *b)
{
	struct boot_reason reason;
	if (!boot_reason_decode(b->dial.reader.data, b->dial.reader.bytes, &reason))
		return rank_try_later(b, RANK_BROKEN, "the listener sent a damaged answer");
	if (reason.what == BOOT_REFUSE_UNKNOWN)
		return rank_try_later(b, RANK_UNKNOWN, reason.text);
	if (reason.what == BOOT_REFUSE_OTHER_PROCESS)
		return rank_try_later(b, RANK_NOBODY, "another process listens");
	return rank_fail(b, code_of_peer(reason.code), "%s", reason.text);
}

static int take_accept(struct boot_rank *b)
{
	const unsigned char *data = b->dial.reader.data;
	if (b->dial.reader.bytes != BOOT_ACCEPT_BYTES || !boot_peer_decode(data, &b->maker))
		return rank_try_later(b, RANK_BROKEN, "the listener sent a damaged answer");
	if (!boot_accept_is_good(data, b->id.key, b->dial.challenge, b->dial.hello))
		return rank_try_later(b, RANK_NOBODY, "a program that does not know the id's key listens");
	b->dial.state = DIAL_JOINED;
	b->dial.reader.limit = FRAME_MAX_BYTES;
	struct frame *part = b->part;
	b->part = NULL;
	return part ? rank_queue(b, part) : 0;
}

int rank_take_handshake(struct boot_rank *b)
{
	if (b->dial.reader.kind == BOOT_REFUSE)
		return take_refusal(b);
	if (b->dial.state == DIAL_GREETED)
		return take_challenge(b);
	if (b->dial.reader.kind == BOOT_ACCEPT)
		return take_accept(b);
	return rank_try_later(b, RANK_NOBODY, "another program listens");
}
