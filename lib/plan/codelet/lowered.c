/* SPDX-License-Identifier: BSD-3-Clause */
/* Any plan, lowered: what GPUs run where no other codelet does. No row names it. Its time is the model's (plan/cost); the engine cuts it when it runs. */
#include "codelet.h"

const struct codelet lowered_codelet = {
	"lowered", codelet_index_lowered, PLAN_SM, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
};
