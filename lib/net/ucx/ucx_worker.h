/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker: a UCX context and worker for all communicators of the process that have the same rail, kind of slots, devices and shares_memory.
 *
 * One lock guards all of a worker. UCX calls back inside ucp_worker_progress, hence under the lock; handlers of a
 * communicator run outside it (ucx_comm.c). Names end where their file begins: ucx_endpoint_* is ucx_endpoint.c.
 */
#ifndef UCX_WORKER_H
#define UCX_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

#include "base/settings.h"
#include "net/transport.h"
#include "ucx_context.h"

/* The header in front of every active message, and the check that needs no other state. */

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

struct ucx_comm;
struct ucx_endpoint;

/* Notes for communicators that are not open here yet, the oldest first. Zeroed: empty. */
struct ucx_early_queue {
	struct ucx_early *head, **end;
	size_t bytes; /* of all payloads */
	unsigned count;
};

enum { UCX_WORKERS = 32 }; /* of a process, at most */

struct ucx_worker {
	pthread_mutex_t lock;
	int rail;
	char *wanted; /* the devices that were asked for; "": by ucx_devices.h */
	int users;
	uint64_t uid; /* of this worker among all of all processes */
	ucp_context_h context;
	int shares_memory; /* transport_params; */
	int has_memory; /* and UCX could make such memory */
	int gpu_slots; /* the context registers GPUs' memory, in strict order */
	int rdma; /* it has a transport of an RDMA adapter */
	struct ucx_gpudirect gpudirect;
	ucp_worker_h ucp;
	ucp_ep_h loop; /* to itself, or NULL */
	int loop_failed;
	ucp_address_t *address;
	size_t address_bytes;
	char devices[256]; /* of the network, for people */
	struct ucx_endpoint *endpoints;
	struct ucx_class *classes;
	struct ucx_comm *comms;
	size_t large_bytes; /* of slots in large pages */
	struct ucx_retired *retired; /* slots of closed communicators that a peer may still write */
	struct ucx_early_queue early;
	uint64_t closed[64]; /* the last communicators closed; what comes late for them is dropped */
	unsigned closes;
	unsigned refused,
	    dropped; /* messages that nobody here awaits; early notes for which there was no room */
	unsigned failures; /* endpoints that wait to be closed by force */
	int news; /* some communicator has events for its handlers */

	pthread_t thread;
	int event_fd;
	int64_t spin_ns;
	_Atomic int stop;
	_Atomic int exits; /* the process does: exit handlers run */
	_Atomic unsigned helps; /* calls of progress by others than the thread */
	_Atomic int connects; /* connections have been made since their descriptors were sealed */
	int asleep, nudge; /* the thread waits for events; something was posted that it must progress */
};

/* The process's worker of the rail, kind of slots and devices, made on first use. Blocks for UCX's start. */
int ucx_worker_acquire(const struct transport_params *params, struct ucx_worker **out);
/* The network devices that UCX opens with these settings; 0 or an error. */
int ucx_worker_devices(const struct settings *settings, char *text, size_t bytes);
/* What ucx_gpudirect_print says with these settings; 0 or an error. */
int ucx_worker_gpudirect(const struct settings *settings, char *text, size_t bytes);
/* The last communicator flushes all messages, because the process may end now: as ucx_end_flush. */
void ucx_worker_release(struct ucx_worker *w, int in_order, int64_t until_ns);

static inline void ucx_lock(struct ucx_worker *w)
{
	pthread_mutex_lock(&w->lock);
}

/* Wakes the thread if a posted message needs it. */
static inline void ucx_unlock(struct ucx_worker *w)
{
	if (w->nudge && w->asleep) {
		w->asleep = 0;
		ucp_worker_signal(w->ucp);
	}
	w->nudge = 0;
	pthread_mutex_unlock(&w->lock);
}

/* ucx_progress.c */
/* Progresses all communicators and calls their handlers; 1 if anything happened. Not under the lock. */
int ucx_progress(struct ucx_worker *w);
/* The same for a waiting thread: returns 0 at once if another thread makes progress. */
int ucx_try_progress(struct ucx_worker *w);
int ucx_thread_start(struct ucx_worker *w);
void ucx_thread_stop(struct ucx_worker *w);

/* A UCX status as a code of ours; the same with a line. */
int ucx_code(ucs_status_t status);
int ucx_failed(const char *what, int rank, ucs_status_t status);

/* UCX's minor version, UINT_MAX if the major one is more than 1. */
unsigned ucx_minor(void);

/* 1 if a request is in progress, so the thread may be needed; 0: it has ended, with UCS_PTR_STATUS(request). */
static inline int ucx_goes_on(struct ucx_worker *w, const void *request)
{
	w->nudge |= UCS_PTR_IS_PTR(request);
	return UCS_PTR_IS_PTR(request);
}

/* Parameters of a request that calls `done` with arg when it ends. */
static inline ucp_request_param_t ucx_request(ucp_send_nbx_callback_t done, void *arg)
{
	return (ucp_request_param_t){ .op_attr_mask =
					  UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
				      .cb.send = done,
				      .user_data = arg };
}

/*
 * The descriptors that UCX opens: sockets, epolls, pipes. It leaves them to every program and child that the process starts, and as long as
 * one has a socket of a connection, peers do not see that this process has died. So exec closes them, and a forked child gives them up.
 *
 * They are found by what the kernel says in /proc/self/fdinfo: the members of the worker's event descriptor, which is an epoll, and of those above and below it,
 * and the sockets at ports that the worker's address names. What only appeared meanwhile may be the program's, and stays.
 */

struct ucx_worker;
struct ucx_descriptors;

/* What is open before a worker is made; NULL without memory. */
struct ucx_descriptors *ucx_descriptors_before(void);
/* For a worker that has been made, and stays; under the lock of the process's workers. From now on a forked child gives up what UCX has. Takes `before`. */
void ucx_descriptors_add(struct ucx_descriptors *before, const struct ucx_worker *worker);
/* Of this worker's connections, which come and go: those that are new are closed by exec. A file of /proc for each of its epolls. */
void ucx_descriptors_seal(const struct ucx_worker *worker);

#endif
