/* SPDX-License-Identifier: BSD-3-Clause */
/* Any plan, lowered: what GPUs run where no other codelet does. Its time is the model's (plan/cost); the engine cuts it when it runs. */
#include "cut.h"

#include <stdio.h>

/* No row names it. */
static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	(void)row, (void)machine, (void)call;
	return 0;
}

static double us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	(void)row, (void)machine, (void)call;
	return -1;
}

static struct codelet_rate rate(const struct row *row, const struct gpu_machine *machine)
{
	(void)row, (void)machine;
	return (struct codelet_rate){ 0 };
}

static void cut(struct launch *l)
{
	(void)l;
}

static size_t print(const struct launch *l, char *buf, size_t bytes)
{
	const int blocks = l->plan->nprograms * l->plan->channels,
		  n = snprintf(buf, bytes, "kernel lowered, %d block%s, chunks of %u bytes", blocks,
			       blocks == 1 ? "" : "s", l->plan->chunk_bytes);
	return n > 0 ? (size_t)n : 0;
}

const struct codelet lowered_codelet = {
	"lowered",           codelet_index_lowered, PLAN_SM, can,          us,    rate,
	codelet_sent_to_all, codelet_one_piece,     cut,     launch_block, print, NULL
};
