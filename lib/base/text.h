/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as text, with a point in every locale that the program has set. */
#ifndef TEXT_H
#define TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* As snprintf and vsnprintf. */
int text_format(char *to, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int text_format_args(char *to, size_t bytes, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
/* As strtod. */
double text_number(const char *text, char **end);

#endif
