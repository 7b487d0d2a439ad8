/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_values.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *alias, *name;
} aliases[] = {
	{ "char", "int8" },
	{ "int", "int32" },
	{ "uint", "uint32" },
	{ "half", "float16" },
	{ "float", "float32" },
	{ "double", "float64" },
	{ "fp8_e4m3", "float8_e4m3" },
	{ "fp8_e5m2", "float8_e5m2" },
	{ "mulsum", "premul" },
};

const char *perf_op_name(int op)
{
	return op >= CORALE_NUM_OPS ? "premul" : corale_op_name((corale_op)op);
}

const char *type_name(int type)
{
	return corale_type_name((corale_type)type);
}

int parse_size(const char *text, size_t *out)
{
	char *end;
	double value = strtod(text, &end);
	int shift = *end == 'k' || *end == 'K'   ? 10
		    : *end == 'm' || *end == 'M' ? 20
		    : *end == 'g' || *end == 'G' ? 30
						 : 0;
	end += shift != 0;
	end += *end == 'B';
	value *= (double)((size_t)1 << shift);
	if (end == text || *end || !(value >= 0 && value <= 1e15)) /* also NaN */
		return -1;
	*out = (size_t)value;
	return 0;
}

int parse_int(const char *text, int least, int *out)
{
	char *end;
	long value = strtol(text, &end, 10);
	if (end == text || *end || value < least || value > 1000000000)
		return -1;
	*out = (int)value;
	return 0;
}

int parse_list(char *text, const char *(*name)(int), int n, int *out, int *count)
{
	*count = 0;
	if (strcmp(text, "all") == 0) {
		while (*count < n) {
			out[*count] = *count;
			++*count;
		}
		return 0;
	}
	for (char *rest, *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		int i = 0;
		for (size_t a = 0; a < sizeof(aliases) / sizeof(aliases[0]); a++)
			word = strcmp(word, aliases[a].alias) ? word : (char *)aliases[a].name;
		while (i < n && strcmp(word, name(i)))
			i++;
		if (i == n || *count == n)
			return -1;
		out[(*count)++] = i;
	}
	return *count ? 0 : -1;
}

int parse_factor(const char *text, double *out)
{
	char *end;
	*out = strtod(text, &end);
	return end == text || *end || !(*out > 1 && *out <= 1e15) ? -1 : 0;
}

const char *device_name(int i)
{
	const char *const names[] = { "host", "cuda" };
	return names[i];
}

int parse_device(const char *text, int *cuda)
{
	*cuda = strcmp(text, device_name(1)) == 0;
	return *cuda || strcmp(text, device_name(0)) == 0 ? 0 : -1;
}

int parse_modes(char *text, int *bits)
{
	int modes[PERF_NCCL_MODES], n;
	*bits = 0;
	if (parse_list(text, perf_nccl_mode_name, PERF_NCCL_MODES, modes, &n))
		return -1;
	for (int i = 0; i < n; i++)
		*bits |= 1 << modes[i];
	return 0;
}

const char *perf_library_name(int library)
{
	const char *const names[] = { "corale", "mpi", "nccl" };
	return names[library];
}

const char *product_name(int i)
{
	return i ? "" : "gemm";
}

int parse_library(const char *text, enum perf_library *library)
{
	for (int i = PERF_CORALE; i <= PERF_NCCL; i++) {
		*library = (enum perf_library)i;
		if (strcmp(text, perf_library_name(i)) == 0)
			return 0;
	}
	return -1;
}

const char *perf_registration_name(const struct perf_job *job)
{
	const char *const names[] = { "plain", "registered", "allocated" };
	return names[job->options->registration];
}
