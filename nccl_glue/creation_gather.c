/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks meet to make a communicator: one all-gather, which ends when it can't succeed any more. */
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"
#include "corale.h"
#include "door.h"

static int give_up(struct door_meeting *m, int code, const char *text)
{
	boot_give_up(m->boot, code, text);
	return code;
}

static int aborted(struct door_meeting *m, const char *what)
{
	const struct door_job *job = m->job;
	char text[160];
	snprintf(text, sizeof text, "nccl%s: %s of this rank was aborted meanwhile", job->call, what);
	return give_up(m, log_error(CORALE_EABORTED, job->comm ? job->comm->rank : job->rank, "%s", text),
		       text);
}

/* What has ended the parent since the job began, if no communicator can be made of its ranks then. */
static int parent_error(const struct door_job *job)
{
	if (job->parent_error || atomic_load(&job->comm->state) == DOOR_REVOKED)
		return 0;
	const int error = corale_comm_async_error(job->comm->core);
	return job->kind == DOOR_SPLIT || error == CORALE_EMISMATCH ? error : 0;
}

static const int64_t look_ns_each = 250000; /* between two looks at a rank: all ranks look at all */

enum { ASK_NS = 500 * 1000 * 1000, SHOW_NS = ASK_NS / 10, ALL_ASK = 8 /* ranks that wait */, AT_A_TIME = 4 };

/*
 * Whether this rank asks rank r of those that have not come, so many. Each question to a rank that was not met before opens a connection, and one that has
 * its answer tells all by the bootstrap. So many that wait take turns; and before rank 0, where they meet, has come it alone is asked, as nobody knows of others.
 */
static int asks(const struct door_meeting *m, int absent, int r)
{
	const int mine = m->boot->rank, come = m->n - absent, turns = come > ALL_ASK ? come : 1;
	if (mine && m->flags[2 * m->n])
		return !r;
	return (r + mine + m->asked) % turns == 0;
}

/*
 * Ranks of other nodes that have not come are asked, as one that left before this rank met it has told nobody here: some at a time, since connections to many
 * may take longer than the others have patience for a rank that does not look at its bootstrap.
 */
static void ask_absent(struct door_meeting *m)
{
	unsigned char *absent = m->flags + 2 * (size_t)m->n;
	const int64_t now = wait_now_ns();
	if (!m->asked_ns) {
		m->asked_ns = now;
		m->next_asked = m->n;
	}
	const int begins = m->next_asked == m->n;
	const int n = begins && now - m->asked_ns < ASK_NS ? 0 : boot_absent(m->boot, m->asked_ns, absent);
	if (!n)
		return;
	if (begins) {
		m->asked_ns = now;
		m->asked++;
		m->next_asked = 0;
	}
	for (int some = AT_A_TIME; some && m->next_asked < m->n; m->next_asked++)
		if (absent[m->next_asked] && asks(m, n, m->next_asked)) {
			comm_ask(m->job->comm->core, m->ranks[m->next_asked]);
			some--;
		}
}

/* To ranks that wait for this one elsewhere. */
static void show_wait(struct door_meeting *m, int64_t now)
{
	const struct door_job *job = m->job;
	unsigned char *absent = m->flags + 2 * (size_t)m->n;
	if (!m->shown_ns)
		m->shown_ns = now;
	if (!job->alone || now - m->shown_ns < SHOW_NS || !boot_absent(m->boot, m->shown_ns, absent))
		return;
	m->shown_ns = now;
	int first = 0;
	while (!absent[first])
		first++;
	comm_show_making(job->comm->core, job->making, m->ranks[first]);
}

/* If a rank of the parent is missing here and can't come: m->missing gets all that are missing, and their number is the result. Else 0. */
static int find_missing(struct door_meeting *m)
{
	const size_t n = (size_t)m->n;
	const int64_t now = wait_now_ns();
	if (now < m->next_look_ns)
		return 0;
	m->next_look_ns = now + (int64_t)m->n * look_ns_each;
	show_wait(m, now);
	unsigned char *suspects = m->flags, *before = suspects + n, *absent = before + n;
	if (!comm_cannot_come(m->job->comm->core, m->ranks, m->n, suspects)) {
		ask_absent(m);
		return 0;
	}
	if (memcmp(suspects, before, n) != 0)
		m->since_ns = now;
	memcpy(before, suspects, n);
	if (!boot_absent(m->boot, m->since_ns, absent))
		return 0;
	int missing = 0, is_over = 0;
	for (int i = 0; i < m->n; i++) {
		if (absent[i])
			m->missing[missing++] = m->ranks[i];
		is_over |= absent[i] && suspects[i];
	}
	return is_over ? missing : 0;
}

/* Logs why one of those ranks can't come: its code; 0: all may. */
static int explain(const struct door_meeting *m, const int *ranks, int n)
{
	char call[48];
	snprintf(call, sizeof call, "nccl%s", m->job->call);
	return comm_explain_absence(m->job->comm->core, ranks, n, call);
}

/* The bootstrap knows no ranks of the parent. */
static void name_lost(const struct door_meeting *m, int rank)
{
	char text[DOOR_ERROR_BYTES / 2];
	snprintf(text, sizeof text, "%s", log_last_error());
	if (!explain(m, &rank, 1))
		log_error(CORALE_EPEER, m->job->comm->rank, "nccl%s waits for rank %d of the parent: %s",
			  m->job->call, rank, text);
}

/* 0, or why the meeting is over before all have come. */
static int look(struct door_meeting *m)
{
	const struct door_job *job = m->job;
	if (job->made && atomic_load(&job->made->state) == DOOR_ENDED)
		return aborted(m, "the communicator");
	if (!job->comm)
		return 0;
	if (atomic_load(&job->comm->state) == DOOR_ENDED)
		return aborted(m, "the parent");
	const int missing = find_missing(m), why = missing ? explain(m, m->missing, missing) : 0;
	if (why)
		return give_up(m, why, log_last_error());
	const int error = parent_error(job);
	if (!error)
		return 0;
	char call[48];
	snprintf(call, sizeof call, "nccl%s", job->call);
	if (error == CORALE_EMISMATCH)
		comm_explain_mismatch(job->comm->core, call);
	return give_up(m,
		       log_error(error, job->comm->rank, "%s: the communicator has failed meanwhile: %s",
				 call,
				 comm_error(job->comm->core) ? corale_comm_last_error(job->comm->core)
							     : corale_strerror(error)),
		       log_last_error());
}

int door_meet(struct door_meeting *m, const void *in, size_t bytes, void *out)
{
	int ret = CORALE_ENOMEM;
	m->flags = calloc(3, (size_t)m->n);
	m->missing = malloc((size_t)m->n * sizeof *m->missing);
	if (m->flags && m->missing)
		ret = boot_start(m->boot, in, bytes, out);
	else
		log_error(ret, m->job->rank, "nccl%s: no memory for %d ranks", m->job->call, m->n);
	while (!ret && !(ret = look(m))) {
		ret = boot_poll(m->boot); /* sleeps itself */
		if (ret == CORALE_EPEER && m->job->comm && m->boot->lost >= 0 && m->boot->lost < m->n)
			name_lost(m, m->ranks[m->boot->lost]);
	}
	if (ret != CORALE_EMISMATCH && m->job->comm &&
	    m->job->alone) /* which the other rank has yet to find */
		comm_show_making(m->job->comm->core, m->job->making, -1);
	free(m->flags);
	free(m->missing);
	return ret > 0 ? 0 : ret;
}
