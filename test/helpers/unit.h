/* SPDX-License-Identifier: BSD-3-Clause */
/* What every unit test includes: cmocka, which asks for the first four, and the library of C. */
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

#endif
