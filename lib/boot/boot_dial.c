/* SPDX-License-Identifier: BSD-3-Clause */
/* The connections that a rank makes: to the listener where its group meets, and to its source's. */
#include <errno.h>
#include <poll.h>

#include "base/wait.h"
#include "boot_fds.h"
#include "boot_rank.h"
#include "corale.h"

static void connected(struct boot_dial *d)
{
	boot_fds_tune(d->fd);
	d->reader.limit = BOOT_TEXT_BYTES + 8;
	d->state = DIAL_GREETED;
}

static int begin(struct boot_dial *d, const struct boot_address *to)
{
	struct sockaddr_storage name;
	const socklen_t length = boot_address_to_socket(to, &name);
	d->fd = boot_fds_socket(name.ss_family);
	if (d->fd < 0)
		return errno;
	d->state = DIAL_CONNECTING;
	if (connect(d->fd, (struct sockaddr *)&name, length) == 0)
		connected(d);
	else if (errno != EINPROGRESS && errno != EINTR)
		return errno;
	return 0;
}

static int check(struct boot_dial *d)
{
	struct pollfd p = { .fd = d->fd, .events = POLLOUT };
	int error = 0;
	socklen_t length = sizeof(error);
	if (poll(&p, 1, 0) <= 0)
		return 0;
	getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (!error)
		connected(d);
	return error;
}

int dial_advance(struct boot_dial *d, const struct boot_address *to)
{
	if (d->state == DIAL_PAUSED && wait_now_ns() >= d->next_try)
		return begin(d, to);
	return d->state == DIAL_CONNECTING ? check(d) : 0;
}

void dial_later(struct boot_dial *d, int64_t longest_ns)
{
	dial_close(d);
	d->state = DIAL_PAUSED;
	d->next_try = wait_now_ns() + d->pause;
	d->pause = d->pause * 2 < longest_ns ? d->pause * 2 : longest_ns;
}

int dial_prove(struct boot_dial *d, const struct boot_rank *b, const struct boot_id *id)
{
	struct boot_hello h = { .version = BOOT_PROTOCOL,
				.process = id->process,
				.name = id->name,
				.rank = b->base.rank,
				.size = b->base.size,
				.peer = b->self };
	if (d->reader.kind != BOOT_CHALLENGE ||
	    !boot_challenge_decode(d->reader.data, d->reader.bytes, d->challenge))
		return CORALE_EINVAL;
	if (boot_random(h.nonce, sizeof(h.nonce)))
		return CORALE_ESYSTEM;
	d->state = DIAL_PROVING;
	return frame_queue(&d->writer, boot_hello_frame(&h, id->key, d->challenge, d->hello));
}

void dial_free_frames(struct boot_dial *d)
{
	frame_reader_free(&d->reader);
	frame_writer_free(&d->writer);
}

void dial_close(struct boot_dial *d)
{
	boot_fds_close(d->fd);
	d->fd = -1;
	dial_free_frames(d);
}
