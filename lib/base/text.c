/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "text.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t plain;

static void make_plain(void)
{
	plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* What the calling thread had. Where there is no memory for a locale, nothing changes. */
static locale_t begin(void)
{
	pthread_once(&once, make_plain);
	return plain ? uselocale(plain) : (locale_t)0;
}

static void end(locale_t before)
{
	if (before)
		uselocale(before);
}

int text_format_args(char *to, size_t bytes, const char *format, va_list args)
{
	const locale_t before = begin();
	const int n = vsnprintf(to, bytes, format, args);
	end(before);
	return n;
}

int text_format(char *to, size_t bytes, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	const int n = text_format_args(to, bytes, format, args);
	va_end(args);
	return n;
}

double text_number(const char *text, char **end_of)
{
	const locale_t before = begin();
	const double value = strtod(text, end_of);
	end(before);
	return value;
}
