/* SPDX-License-Identifier: BSD-3-Clause */
#include "statistics.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"

static struct cell {
	_Atomic uint64_t calls, ns, bytes;
} cells[PMPI_FUNCTIONS][PMPI_SIZE_CLASSES][PMPI_OUTCOMES][PMPI_REASONS];

#define COLLECTIVE(enumerator, function, ...) [PMPI_##enumerator] = #function,
static const char *const names[PMPI_FUNCTIONS] = {
	[PMPI_BARRIER] = "MPI_Barrier",
#include "collectives.def"
	[PMPI_REDUCE_LOCAL] = "MPI_Reduce_local",
	[PMPI_SEND] = "sends",
	[PMPI_RECV] = "receives",
	[PMPI_EXCHANGE] = "MPI_Sendrecv and its kin",
};
#undef COLLECTIVE

const char *pmpi_function_name(enum pmpi_function function)
{
	return names[function];
}

static const char *const sizes[PMPI_SIZE_CLASSES] = { "0 B",    "< 16 B",  "< 256 B",  "< 4 KB",   "< 64 KB",
						      "< 1 MB", "< 16 MB", "< 256 MB", ">= 256 MB" };

static const char *const reasons[PMPI_REASONS] = { "",
						   "host memory",
						   "no route",
						   "request",
						   "type or operator",
						   "kind of communicator",
						   "no communicator of Corale",
						   "no vote yet" };

void pmpi_statistics_count(enum pmpi_function function, enum pmpi_outcome outcome, enum pmpi_reason reason,
			   size_t bytes, double begin)
{
	struct cell *cell = &cells[function][pmpi_size_class(bytes)][outcome][reason];
	atomic_fetch_add_explicit(&cell->calls, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&cell->bytes, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&cell->ns, (uint64_t)((double)wait_now_ns() - begin), memory_order_relaxed);
}

/* "staged: request 3; passed on: host memory 5" */
static void write_reasons(char *text, size_t room, struct cell (*row)[PMPI_REASONS])
{
	static const char *const outcomes[PMPI_OUTCOMES] = { "", "staged: ", "passed on: " };
	size_t used = 0;
	text[0] = 0;
	for (int o = PMPI_IS_STAGED; o < PMPI_OUTCOMES; o++) {
		const char *before = outcomes[o];
		for (int r = 0; r < PMPI_REASONS; r++) {
			if (!row[o][r].calls || used >= room)
				continue;
			used += (size_t)snprintf(text + used, room - used, "%s%s%s %llu",
						 before == outcomes[o] && used ? "; " : "", before,
						 reasons[r], (unsigned long long)row[o][r].calls);
			before = ", ";
		}
	}
}

static void print_row(int function, int size, struct cell (*row)[PMPI_REASONS])
{
	unsigned long long calls[PMPI_OUTCOMES] = { 0 };
	double seconds[PMPI_OUTCOMES] = { 0 };
	char why[256];
	for (int o = 0; o < PMPI_OUTCOMES; o++)
		for (int r = 0; r < PMPI_REASONS; r++) {
			calls[o] += row[o][r].calls;
			seconds[o] += 1e-9 * (double)row[o][r].ns;
		}
	if (!(calls[0] + calls[1] + calls[2]))
		return;
	write_reasons(why, sizeof why, row);
	log_line(LOG_INFO, pmpi.rank, "%-26s %9s %9llu (%8.3f) %9llu (%8.3f) %9llu (%8.3f)%s%s",
		 names[function], sizes[size], calls[0], seconds[0], calls[1], seconds[1], calls[2],
		 seconds[2], *why ? "  " : "", why);
}

/* Of collectives that Corale can run, what it ran. */
static void print_share(void)
{
	double routed = 0, staged = 0;
	for (int f = 0; f < PMPI_COLLECTIVES; f++)
		for (int s = 0; s < PMPI_SIZE_CLASSES; s++) {
			routed += (double)cells[f][s][PMPI_IS_ROUTED][PMPI_NO_REASON].bytes;
			staged += (double)cells[f][s][PMPI_IS_STAGED][PMPI_NO_VOTE].bytes +
				  (double)cells[f][s][PMPI_IS_STAGED][PMPI_NO_CORE].bytes;
		}
	if (routed + staged > 0)
		log_line(LOG_INFO, pmpi.rank,
			 "the MPI door: of %.0f bytes of collectives that Corale can run, %.1f %% were "
			 "routed, the others staged",
			 routed + staged, 100 * routed / (routed + staged));
}

void pmpi_statistics_print(void)
{
	if (!pmpi.counts)
		return;
	log_line(LOG_INFO, pmpi.rank, "%-26s %9s %20s %20s %20s  %s", "the MPI door: calls (s)", "bytes",
		 "routed", "staged", "passed on", "why not routed");
	for (int f = 0; f < PMPI_FUNCTIONS; f++)
		for (int s = 0; s < PMPI_SIZE_CLASSES; s++)
			print_row(f, s, cells[f][s]);
	print_share();
}
