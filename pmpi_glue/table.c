#include "table.h"

#include <stdatomic.h>
#include <stdint.h>

#include "base/log.h"
#include "base/wait.h"
#include "door.h"

static struct {
	_Atomic uint64_t calls[PMPI_OUTCOMES], ns[PMPI_OUTCOMES];
} rows[PMPI_FUNCTIONS];

#define FUNCTION(enumerator, name) name,
static const char *const names[PMPI_FUNCTIONS] = {
#include "functions.def"
};
#undef FUNCTION

const char *pmpi_function_name(enum pmpi_function function)
{
	return names[function];
}

double pmpi_table_begin(void)
{
	return pmpi.counts ? (double)wait_now_ns() : 0;
}

void pmpi_table_end(enum pmpi_function function, enum pmpi_outcome outcome, double begin)
{
	if (!pmpi.counts)
		return;
	atomic_fetch_add_explicit(&rows[function].calls[outcome], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&rows[function].ns[outcome], (uint64_t)((double)wait_now_ns() - begin),
				  memory_order_relaxed);
}

void pmpi_table_print(void)
{
	if (!pmpi.counts)
		return;
	log_line(LOG_INFO, pmpi.rank, "%-26s %20s %20s %20s", "the MPI door: calls (s)", "routed", "staged",
		 "passed on");
	for (int f = 0; f < PMPI_FUNCTIONS; f++) {
		unsigned long long calls[PMPI_OUTCOMES], all = 0;
		double seconds[PMPI_OUTCOMES];
		for (int o = 0; o < PMPI_OUTCOMES; o++) {
			all += calls[o] = rows[f].calls[o];
			seconds[o] = 1e-9 * (double)rows[f].ns[o];
		}
		if (all)
			log_line(LOG_INFO, pmpi.rank, "%-26s %9llu (%8.3f) %9llu (%8.3f) %9llu (%8.3f)",
				 names[f], calls[0], seconds[0], calls[1], seconds[1], calls[2], seconds[2]);
	}
}
