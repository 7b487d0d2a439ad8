/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_rank.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/wait.h"
#include "boot_fds.h"
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
	rank_disconnect(b);
	b->tried_at = now;
	b->nobody = kind == RANK_NOBODY;
	/* the listener of a child's first rank was there when the parent was made */
	const int has_ended = kind == RANK_NOBODY && b->id.flags == BOOT_ID_CHILD;
	if (!may_come(b, kind) && now >= b->stale_at - (has_ended ? ENDED_EARLIER_NS : 0))
		return give_up(b, kind);
	b->state = RANK_PAUSED;
	b->next_try = now + b->pause;
	b->pause = b->pause * 2 < LONGEST_PAUSE ? b->pause * 2 : LONGEST_PAUSE;
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

static int connected(struct boot_rank *b)
{
	b->try_ends = wait_now_ns() + HANDSHAKE_NS;
	boot_fds_tune(b->fd);
	b->reader.limit = BOOT_TEXT_BYTES + 8;
	b->state = RANK_GREETED;
	return 0;
}

int rank_begin_connect(struct boot_rank *b)
{
	struct sockaddr_storage name;
	socklen_t length = boot_address_to_socket(&b->id.address, &name);
	b->fd = boot_fds_socket(name.ss_family);
	if (b->fd < 0)
		return rank_fail(b, CORALE_ESYSTEM, "cannot make a TCP socket: %s", strerror(errno));
	b->try_ends = wait_now_ns() + CONNECT_NS;
	if (connect(b->fd, (struct sockaddr *)&name, length) == 0)
		return connected(b);
	if (errno != EINPROGRESS && errno != EINTR)
		return rank_connect_failed(b, errno);
	b->state = RANK_CONNECTING;
	return 0;
}

int rank_check_connect(struct boot_rank *b)
{
	struct pollfd p = { .fd = b->fd, .events = POLLOUT };
	int error = 0;
	socklen_t length = sizeof(error);
	if (poll(&p, 1, 0) <= 0)
		return 0;
	getsockopt(b->fd, SOL_SOCKET, SO_ERROR, &error, &length);
	return error ? rank_connect_failed(b, error) : connected(b);
}

/* ---- The handshake */

static int take_challenge(struct boot_rank *b)
{
	if (b->reader.kind != BOOT_CHALLENGE ||
	    !boot_challenge_decode(b->reader.data, b->reader.bytes, b->challenge))
		return rank_try_later(b, RANK_NOBODY, "another program listens");
	struct boot_hello h = { .version = BOOT_PROTOCOL,
				.process = b->id.process,
				.name = b->id.name,
				.rank = b->base.rank,
				.size = b->base.size,
				.peer = b->self };
	if (boot_random(h.nonce, sizeof(h.nonce)))
		return rank_fail(b, CORALE_ESYSTEM, "no random bytes");
	b->state = RANK_PROVING;
	/* The listener's process may be starved. It may count this rank in already, and would take the end of this connection for the rank's death. */
	b->try_ends = INT64_MAX;
	return rank_queue(b, boot_hello_frame(&h, b->id.key, b->challenge, b->hello));
}

static int take_refusal(struct boot_rank *b)
{
	struct boot_reason reason;
	if (!b->reader.bytes || !boot_reason_decode(b->reader.data, b->reader.bytes, &reason))
		return rank_try_later(b, RANK_BROKEN, "the listener sent a damaged answer");
	if (reason.what == BOOT_REFUSE_UNKNOWN)
		return rank_try_later(b, RANK_UNKNOWN, reason.text);
	if (reason.what == BOOT_REFUSE_OTHER_PROCESS)
		return rank_try_later(b, RANK_NOBODY, "another process listens");
	return rank_fail(b, code_of_peer(reason.code), "%s", reason.text);
}

static int take_accept(struct boot_rank *b)
{
	const unsigned char *data = b->reader.data;
	if (b->reader.bytes != BOOT_ACCEPT_BYTES || !boot_peer_decode(data, &b->maker))
		return rank_try_later(b, RANK_BROKEN, "the listener sent a damaged answer");
	if (!boot_accept_is_good(data, b->id.key, b->challenge, b->hello))
		return rank_try_later(b, RANK_NOBODY, "a program that does not know the id's key listens");
	b->state = RANK_JOINED;
	b->reader.limit = FRAME_MAX_BYTES;
	struct frame *part = b->part;
	b->part = NULL;
	return part ? rank_queue(b, part) : 0;
}

int rank_take_handshake(struct boot_rank *b)
{
	if (b->reader.kind == BOOT_REFUSE)
		return take_refusal(b);
	if (b->state == RANK_GREETED)
		return take_challenge(b);
	if (b->reader.kind == BOOT_ACCEPT)
		return take_accept(b);
	return rank_try_later(b, RANK_NOBODY, "another program listens");
}
