/* What rows with a codelet can run, and what that costs by the rates of GPUs: functions of the table. Pure. */
#ifndef ROW_US_H
#define ROW_US_H

#include "row.h"

/* us of a call by one kernel, and by copy engines. */
double row_kernel_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);
double row_copies_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);

/* Whether copies go straight into receive buffers, where they move data. */
int row_copies_direct(const struct gpu_machine *machine, const struct plan_call *call);

#endif
