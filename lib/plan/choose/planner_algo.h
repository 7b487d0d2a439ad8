/* SPDX-License-Identifier: BSD-3-Clause */
/* CORALE_ALGO: which rows of the algorithm table a text allows. */
#ifndef PLANNER_ALGO_H
#define PLANNER_ALGO_H

#include "corale.h"

/* text has passed planner_check_algo. A collective that a text does not speak of may use all its rows. */
int planner_algo_allows(const char *text, int row);
/* Whether it excludes a row by ^name. */
int planner_algo_excludes(const char *text, int row);

#endif
