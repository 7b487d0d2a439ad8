/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks say to each other of calls and of the communicator's end: control messages to other nodes, words and texts in windows on this one. */
#ifndef CONTROL_MESSAGES_H
#define CONTROL_MESSAGES_H

#include "state/comm.h"

/* Why a communicator ends. */
struct ending {
	int code, culprit; /* CORALE_EINTERNAL and NOBODY where the word says nothing that can be */
	int how; /* presence_how(culprit) */
	uint64_t at; /* the call that failed, as window_position says; EVERYWHERE: all calls end */
};

enum { NOBODY = -1, EVERYWHERE = 1 };

/* How long this rank waits for what others know of a failure. */
enum { COLLECT_MS = 400 };

/* Fails comm, and says so on all ranks. */
void diagnose_fail(struct comm *comm, const struct ending *end, const char *text);
/* Fails comm by a text that begins with the call. Returns code. */
int diagnose_fail_call(struct comm *comm, const struct record *call, int code, int culprit,
		       const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Only says so. */
void diagnose_spread(struct comm *comm, const struct ending *end);

enum control_kind {
	KIND_ABORT = 1,
	KIND_REPLY = 2,
	KIND_CALLS = 3,
	KIND_ASK = 4,
	KIND_ANSWER = 5,
	KIND_TEXT = 6,
	KIND_LEFT = 7
};

/* One message between nodes: why the communicator ended (of KIND_ANSWER: what the sender is at; of KIND_LEFT: how it has left; of other kinds 0), and the sender's last
 * calls, the latest first. */
struct control {
	int32_t kind, code, culprit, rank;
	uint64_t
	    at; /* of KIND_ABORT, with how: as struct ending; of KIND_ANSWER: window_wait_of, if the sender waits for the receiver */
	int32_t how, unused;
	union {
		struct record records[COMM_PEER_CALLS];
		char text[WINDOW_REASON]; /* of KIND_TEXT; how: enum window_text */
	};
};

void control_signal_node(const struct comm *comm, const struct ending *end);
uint64_t control_abort_word(const struct comm *comm);
/* An abort word, which any process of the node may have written. */
struct ending control_read_ending(const struct comm *comm, uint64_t word);

/* With this rank's last calls. */
void control_send_records(struct comm *comm, struct control c, int peer);
void control_send(struct comm *comm, int kind, int code, int culprit, int peer);
void control_send_abort(struct comm *comm, const struct ending *end, int peer);

/* Why this rank ends the communicator, or has refused a call. */
void control_publish_text(struct comm *comm, enum window_text which, const char *text);
/* 1 if the rank has said why. */
int control_read_text(struct comm *comm, enum window_text which, int rank, char *buf);
/* Before the message that ends the communicator, or has the record of the refused call. */
void control_send_text(struct comm *comm, enum window_text which, int peer);

/* What this rank knows of all ranks' last calls, and where they differ. */

/* The call with that number; number 0 when it is not known, or no longer. */
struct record records_get(const struct comm *comm, int rank, uint64_t number);
/* 1 if two ranks are known to have made different calls under the number. */
int records_differ(const struct comm *comm, uint64_t number);
/* The first call, going back from the last one, up to which all known records agree; 0 when none differs. */
uint64_t records_first_difference(struct comm *comm);
/* A send or receive that the rank has refused, and the other one has not; the other way round it is another call. */
int records_find_refused(struct comm *comm, int rank, int other, struct record *refused);

#endif
