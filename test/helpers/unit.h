/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every unit test includes: cmocka, which asks for the first four, and the library of C. UNIT_TEST(name) { ... } defines a case of the program;
 * all that it defines run in the order of their lines, by the main function of unit_main.c or by its own, which calls unit_run.
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct unit_test {
	int order;
	struct CMUnitTest test;
};

#define UNIT_TEST(name) UNIT_TEST_WITH(name, NULL, NULL)
/* With what runs before and after it. */
#define UNIT_TEST_WITH(name, setup, teardown) UNIT_CASE(name, #name, __LINE__, setup, teardown)
/* A case whose name is a text, by the order in which cases run. The linker gathers the entries of a section in an array. */
#define UNIT_CASE(function, name, order, setup, teardown)                                                    \
	static void function(void **state);                                                                  \
	static const struct unit_test unit_##function = { order,                                             \
							  { name, function, setup, teardown, NULL } };       \
	UNIT_ENTRY static const struct unit_test *const unit_entry_##function = &unit_##function;            \
	static void function(void **state)
#define UNIT_ENTRY __attribute__((used, section("unit_tests")))

/* Before the first case and after the last one; NULL: nothing. The number of those that failed, as cmocka. */
int unit_run(CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
