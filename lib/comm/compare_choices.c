/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation compares by what all ranks choose how calls run, and what they choose: ranks that differ would wait for each other for ever. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm_create.h"

struct chosen {
	uint64_t inputs, sample;
};

static int work_out(struct comm *comm, struct chosen *out)
{
	struct plans *plans = comm->gpu ? &comm->gpu_plans : &comm->plans;
	if (!plans->choices && !(plans->choices = machine_choices_open(&plans->planner)))
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for the choices of a machine");
	*out = (struct chosen){ plans->choices->inputs,
				machine_choices_sample(plans->choices, &plans->planner) };
	return 0;
}

static int refuse(const struct comm *comm, const struct chosen *all, int odd)
{
	const int inputs = all[odd].inputs != all[0].inputs;
	return log_error(CORALE_ESETTING, comm->rank,
			 "ranks 0 and %d would run calls by different algorithms: %s (rank 0 has %016llx, "
			 "rank %d %016llx): give all ranks %s",
			 odd,
			 inputs ? "they see different machines, rates or settings"
				: "they choose differently on one machine",
			 (unsigned long long)(inputs ? all[0].inputs : all[0].sample), odd,
			 (unsigned long long)(inputs ? all[odd].inputs : all[odd].sample),
			 inputs ? "the same settings, and the same cores and GPUs a rank"
				: "the same build of the library");
}

int comm_compare_choices(struct comm *comm, int met)
{
	struct chosen mine = { 0 };
	if (comm->size == 1)
		return met;
	int ret = met ? met : work_out(comm, &mine);
	struct chosen *all = comm_gather(comm, &ret, "get ready for calls", &mine, sizeof mine);
	int odd = 1; /* the first rank that differs from rank 0 */
	while (all && odd < comm->size && !memcmp(&all[odd], all, sizeof *all))
		odd++;
	if (all && odd < comm->size)
		ret = refuse(comm, all, odd);
	free(all);
	return ret;
}

enum { CHOICES_TEXT = 512 };

static void print_choices(struct comm *comm, corale_coll coll, int memory, char text[CHOICES_TEXT])
{
	const struct choices *choices;
	*text = 0;
	if (!plans_choices(&comm->gpu_plans, comm->rank, coll, CORALE_FLOAT32, memory, &choices))
		choices_print(choices, text, CHOICES_TEXT);
}

static void log_choices_of(struct comm *comm, corale_coll coll)
{
	char plain[CHOICES_TEXT], registered[CHOICES_TEXT] = "there is none";
	const int scratch = comm->scratch == COMM_SCRATCH_NONE ? 0 : PLAN_MEMORY_SCRATCH;
	print_choices(comm, coll, scratch, plain);
	if (!comm->host_window)
		print_choices(comm, coll, scratch | PLAN_MEMORY_REGISTERED | PLAN_MEMORY_EXPORTED,
			      registered);
	log_line(LOG_INFO, comm->rank,
		 "%s on GPUs, bytes of a block or vector: %s; received into registered memory: %s",
		 corale_coll_name(coll), plain, registered);
}

void comm_log_choices(struct comm *comm)
{
	if (comm->rank || comm->size == 1 || comm->proxy || log_level < LOG_INFO)
		return;
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		if (!coll_is_pair(coll) && coll_has_count(coll) && row_next_codelet((corale_coll)coll, NULL))
			log_choices_of(comm, (corale_coll)coll);
}
