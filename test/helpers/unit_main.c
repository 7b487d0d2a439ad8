/* SPDX-License-Identifier: BSD-3-Clause */
/* The main function of tests that have none of their own. */
#include "test/helpers/unit.h"

int main(void)
{
	return unit_run(NULL, NULL);
}
