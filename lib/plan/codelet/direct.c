/* SPDX-License-Identifier: BSD-3-Clause */
/* An all_reduce of messages: a reduce-scatter through slots, an all-gather straight into registered memory. Protocol DIRECT. */
#include "cut.h"

enum { SLOT_BYTES = 1 << 20 /* at most */ };

static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	(void)row, (void)machine;
	return row_is_registered(call);
}

static struct codelet_rate rate(const struct row *row, int ranks)
{
	(void)row, (void)ranks;
	return codelet_rate(14, 362, 21, 241, 2, RATES_FOLDING);
}

static void cut(struct launch *l)
{
	l->message = slots_message(l, 1, SLOT_BYTES);
}

static size_t print(const struct launch *l, char *buf, size_t bytes)
{
	return launch_print_kernel(l, "direct", buf, bytes);
}

const struct codelet direct_codelet = { "direct",
					codelet_index_direct,
					PLAN_SM,
					can,
					codelet_us,
					rate,
					codelet_sent_in_parts,
					codelet_one_piece,
					cut,
					launch_two_parts,
					print,
					NULL };
