/* SPDX-License-Identifier: BSD-3-Clause */
#include "plans.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "plan/choose/choices.h"

enum { MOST_UNUSED = 8 }; /* machines that are kept for communicators to come */

static struct machine_choices *machines; /* the last one opened first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void free_machine(struct machine_choices *machine)
{
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		for (int kind = 0; kind < CHOICES_KINDS; kind++)
			for (int memory = 0; memory < PLAN_MEMORY_CLASSES; memory++)
				free((void *)(uintptr_t)machine->lists[coll][kind][memory]);
	free(machine);
}

/* Takes a machine out of the list, or makes one. */
static struct machine_choices *take(uint64_t inputs)
{
	struct machine_choices **at = &machines;
	while (*at && (*at)->inputs != inputs)
		at = &(*at)->next;
	struct machine_choices *found = *at;
	if (found)
		*at = found->next;
	else if ((found = calloc(1, sizeof *found)))
		found->inputs = inputs;
	return found;
}

struct machine_choices *machine_choices_open(const struct planner *planner)
{
	const uint64_t inputs = choices_hash_inputs(planner);
	pthread_mutex_lock(&lock);
	struct machine_choices *machine = take(inputs);
	if (machine) {
		machine->users++;
		machine->next = machines;
		machines = machine;
	}
	pthread_mutex_unlock(&lock);
	return machine;
}

/* Those that nobody has opened for longest go. */
static void drop_unused(void)
{
	int unused = 0;
	for (struct machine_choices **at = &machines; *at;) {
		struct machine_choices *machine = *at;
		if (machine->users || ++unused <= MOST_UNUSED) {
			at = &machine->next;
			continue;
		}
		*at = machine->next;
		free_machine(machine);
	}
}

void machine_choices_close(struct machine_choices *machine)
{
	if (!machine)
		return;
	pthread_mutex_lock(&lock);
	machine->users--;
	drop_unused();
	pthread_mutex_unlock(&lock);
}

uint64_t machine_choices_sample(struct machine_choices *machine, const struct planner *planner)
{
	pthread_mutex_lock(&lock);
	if (!machine->sample)
		machine->sample = choices_hash_sample(planner);
	pthread_mutex_unlock(&lock);
	return machine->sample;
}

static int count_room(struct machine_choices *machine, const struct planner *planner, int rank)
{
	if (machine->has_room || !planner->single)
		return 0;
	const int ret = planner_room_init(&machine->room, planner);
	machine->has_room = !ret;
	return ret ? log_error(ret, rank, "connections can't be counted: %s", corale_strerror(ret)) : 0;
}

int machine_choices_room(struct machine_choices *machine, const struct planner *planner, int rank)
{
	pthread_mutex_lock(&lock);
	const int ret = count_room(machine, planner, rank);
	pthread_mutex_unlock(&lock);
	return ret;
}

/* A list may say that nothing runs a call: calls are then refused by the planner's words. */
static int make(struct machine_choices *machine, const struct planner *of, int rank, corale_coll coll,
		corale_type type, int memory, const struct choices **out)
{
	char error[512] = "";
	struct planner planner = *of;
	int ret = count_room(machine, of, rank);
	struct choices *list = ret ? NULL : malloc(sizeof *list);
	if (!list)
		return ret ? ret
			   : log_error(CORALE_ENOMEM, rank, "no memory for the choices of %s",
				       corale_coll_name(coll));
	planner.room = machine->has_room ? &machine->room : NULL;
	ret = choices_of(&planner, coll, type, memory, list, error, sizeof error);
	if (ret && ret != CORALE_ENOTSUP) {
		free(list);
		return log_error(ret, rank, "no choices of %s: %s", corale_coll_name(coll), error);
	}
	*out = list;
	return 0;
}

int machine_choices_make(struct machine_choices *machine, const struct planner *planner, int rank,
			 corale_coll coll, corale_type type, int memory, const struct choices **out)
{
	_Atomic(const struct choices *) *at = &machine->lists[coll][choices_kind(type)][memory];
	int ret = 0;
	pthread_mutex_lock(&lock);
	*out = atomic_load_explicit(at, memory_order_relaxed);
	if (!*out && !(ret = make(machine, planner, rank, coll, type, memory, out)))
		atomic_store_explicit(at, *out, memory_order_release);
	pthread_mutex_unlock(&lock);
	return ret;
}
