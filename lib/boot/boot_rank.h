/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's end: what its files share. Used by one thread at a time. */
#ifndef BOOT_RANK_H
#define BOOT_RANK_H

#include <sys/types.h>

#include "boot_frame.h"
#include "boot_source.h"
#include "boot_tcp.h"
#include "boot_wire.h"

enum { RANK_TEXT_BYTES = 256, RANK_IFNAME_BYTES = 256 };

enum boot_dial_state {
	DIAL_NONE, /* a feed that there is not: the listener sends all */
	DIAL_PAUSED, /* until next_try */
	DIAL_CONNECTING,
	DIAL_GREETED, /* connected; waits for the challenge */
	DIAL_PROVING, /* waits for the listener's answer */
	DIAL_JOINED, /* the listener knows the key; waits for the table: for the other ranks */
	DIAL_COMPLETE
};

/* A connection that the rank makes to a listener. */
struct boot_dial {
	enum boot_dial_state state;
	int fd; /* -1: none */
	int64_t pause, next_try;
	int64_t ends; /* when it must have come further */
	unsigned char challenge[BOOT_NONCE_BYTES], hello[BOOT_HELLO_BYTES];
	struct frame_reader reader;
	struct frame_writer writer;
};

/* From the rank's source. */
struct boot_feed {
	struct boot_dial dial;
	struct boot_id id; /* of the source: its listener, process, name and key */
	int late; /* how often the listener has said that what this rank waits for has been sent */
};

struct boot_rank {
	struct boot base;
	struct boot_id id;
	char ifname[RANK_IFNAME_BYTES];
	struct boot_options options; /* without an address; ifname is the copy */
	struct boot_peer self;
	pid_t pid; /* of the process that opened it */
	int error; /* what ended it */
	int rests; /* it has left the listener */

	/* The connection. */
	struct boot_dial dial;
	int64_t stale_at;
	int64_t tried_at; /* when the last try failed, 0: never; */
	int nobody; /* because there is no such listener */
	char last_failure[RANK_TEXT_BYTES];
	struct boot_peer maker, *peers; /* the listener's process; all ranks, once complete */

	/* Where ranks pass on what all get. */
	struct boot_feed feed;
	struct boot_source *source; /* of this rank's own; NULL: none */
	/* The listener has closed the connection. Until then the feed may bring all the same what this rank waits for. */
	int64_t hung_up;

	/* The all-gather. */
	int is_gathering;
	uint64_t round;
	size_t bytes;
	void *out;
	struct frame *part; /* as long as there is no connection for it */
	int64_t timeout, deadline, waits_since, next_who, next_warn;
	struct boot_missing missing; /* as the listener said last, */
	uint64_t questions; /* the number of the last one, which an answer repeats; */
	int64_t asked_at, missing_at; /* when it was asked; when the one that was answered was; 0: never */
};

/* ---- boot_dial.c */

/* Goes on with connecting to an address: 0, or the errno with which that has failed; fd -1: no socket could be made. */
int dial_advance(struct boot_dial *d, const struct boot_address *to);
/* Closes the connection, and tries again after a pause, which doubles up to longest_ns. */
void dial_later(struct boot_dial *d, int64_t longest_ns);
/* Answers the challenge in the reader with a hello of b to the listener of id. 0; CORALE_EINVAL: it is no challenge; CORALE_ESYSTEM or CORALE_ENOMEM. */
int dial_prove(struct boot_dial *d, const struct boot_rank *b, const struct boot_id *id);
void dial_close(struct boot_dial *d);
/* All of dial_close but the descriptor. */
void dial_free_frames(struct boot_dial *d);

/* ---- boot_rank.c: ending */

/* The feed, and this rank's own source. */
void rank_end_feed(struct boot_rank *b);
/* Tells the listener why this rank leaves, if it can. */
void rank_send_leave(struct boot_rank *b, int code, const char *text);
/* Ends the bootstrap: one line, and the same code for ever. Returns it. */
int rank_fail(struct boot_rank *b, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Takes over one use of f (NULL: there was no memory), to be sent. 0, or fails. */
int rank_queue(struct boot_rank *b, struct frame *f);

/* ---- boot_wait.c */

/* The deadline, and the time of the next warning and question, count from now on. */
void rank_restart_clock(struct boot_rank *b);
/* Asks the listener which ranks are missing: 0 or the code of rank_fail. */
int rank_ask_who(struct boot_rank *b, int64_t now);
/* It waits for nothing. */
int rank_is_done(const struct boot_rank *b);
/* All that can be done without waiting: 0 or an error. */
int rank_advance(struct boot_rank *b);
void rank_sleep(struct boot_rank *b);

/* ---- boot_connect.c: until the listener has proved that it knows the key. 0 or the code of rank_fail. */

enum rank_trouble {
	RANK_BROKEN, /* tried again until the deadline */
	RANK_UNREACHABLE, /* there is no route */
	RANK_NOBODY, /* no such listener there: the maker of the id has ended */
	RANK_UNKNOWN /* the listener does not know the id: its group has ended, or has not begun */
};

/* Tries again later, or gives up, with text as the reason. */
int rank_try_later(struct boot_rank *b, enum rank_trouble kind, const char *text);
int rank_connect(struct boot_rank *b);
/* With an errno; 0: the time for it is over. */
int rank_connect_failed(struct boot_rank *b, int error);
/* A frame in the states DIAL_GREETED and DIAL_PROVING. */
int rank_take_handshake(struct boot_rank *b);

/* ---- boot_delivery.c */

/* A frame of a kind, length or time that no listener of Corale sends: fails. */
int rank_damaged(struct boot_rank *b);
/* The table or an all-gather's result, from the listener or a source: 0, 1 if it is none that this rank waits for, or the code of rank_fail. */
int rank_take_delivery(struct boot_rank *b, const struct frame_reader *r);
/* The listener's process has closed the connection, and this rank waits for something: fails. */
int rank_lost(struct boot_rank *b);

/* ---- boot_member.c */

/* Takes frames until nothing more has come, or the all-gather has ended: a failure behind its end is for the next call. */
int rank_read_frames(struct boot_rank *b);

/* ---- boot_feed.c. 0 or the code of rank_fail. */

/* A frame FEED. */
int rank_take_feed(struct boot_rank *b);
int rank_advance_feed(struct boot_rank *b);
/* Gives the feed up, if there is one: the listener sends what this rank waits for. */
int rank_ask_again(struct boot_rank *b);

/* ---- boot_id.c */

/* 0, or a CORALE_E* with a line. */
int boot_id_check(const unsigned char bytes[BOOT_ID_BYTES], int rank, struct boot_id *id);

#endif
