/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL_* variables by name. NCCL has a type and a default for each; here a variable is its text, and one that is not set has none. What
 * goes wrong is an answer to a question, so it is kept for ncclGetLastError and not logged. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "env.h"
#include "error.h"
#include "export.h"

static ncclResult_t invalid(const char *format, ...) __attribute__((format(printf, 1, 2)));
static ncclResult_t invalid(const char *format, ...)
{
	char text[DOOR_ERROR_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	door_keep_error(text);
	return ncclInvalidArgument;
}

/* The known variable of this name, NULL if there is none. */
static const char *find(const char *key)
{
	for (int i = 0; i < door_env_count(); i++)
		if (!strcmp(door_env_name(i), key))
			return door_env_name(i);
	return NULL;
}

/* A handle is the address of the name, in disguise. NULL if the program made it up. */
static const char *name_of(ncclParamHandle_t handle)
{
	for (int i = 0; i < door_env_count(); i++)
		if ((const void *)door_env_name(i) == (const void *)handle)
			return door_env_name(i);
	return NULL;
}

static const char *value_or_empty(const char *name)
{
	const char *value = door_env(name);
	return value ? value : "";
}

DOOR_EXPORT(ncclParamBind);
ncclResult_t pncclParamBind(ncclParamHandle_t *out, const char *key)
{
	if (!out || !key)
		return invalid("ncclParamBind: %s is NULL", out ? "key" : "out");
	const char *name = find(key);
	if (!name)
		return invalid("ncclParamBind: there is no variable %s", key);
	*out = (ncclParamHandle_t)(uintptr_t)name;
	return ncclSuccess;
}

/* The name that handle stands for, after a check of what all getters are given. */
static const char *bound(const char *call, ncclParamHandle_t handle, const void *out)
{
	const char *name = handle && out ? name_of(handle) : NULL;

	if (!name)
		invalid("%s: %s", call, out ? "the handle is not one of ncclParamBind" : "out is NULL");
	return name;
}

/* The bits of a number's value; low: 0 for unsigned types. */
static ncclResult_t get_number(const char *call, ncclParamHandle_t handle, const void *out, long long low,
			       unsigned long long high, unsigned long long *value)
{
	const char *name = bound(call, handle, out), *text = name ? door_env(name) : NULL;
	char *end;

	if (!text)
		return name ? invalid("%s: %s is not set", call, name) : ncclInvalidArgument;
	const int is_negative = strchr(text, '-') != NULL; /* which strtoull takes, too */
	errno = 0;
	*value = is_negative ? (unsigned long long)strtoll(text, &end, 0) : strtoull(text, &end, 0);
	if (errno || end == text || *end || (is_negative ? !low || (long long)*value < low : *value > high))
		return invalid("%s: %s is %s: no number from %lld to %llu", call, name, text, low, high);
	return ncclSuccess;
}

#define GET_NUMBER(suffix, type, low, high)                                                                  \
	DOOR_EXPORT(ncclParamGet##suffix);                                                                   \
	ncclResult_t pncclParamGet##suffix(ncclParamHandle_t h, type *out)                                   \
	{                                                                                                    \
		unsigned long long value;                                                                    \
		ncclResult_t result = get_number("ncclParamGet" #suffix, h, out, low, high, &value);         \
		if (result == ncclSuccess)                                                                   \
			*out = (type)value;                                                                  \
		return result;                                                                               \
	}
GET_NUMBER(I8, int8_t, INT8_MIN, INT8_MAX)
GET_NUMBER(I16, int16_t, INT16_MIN, INT16_MAX)
GET_NUMBER(I32, int32_t, INT32_MIN, INT32_MAX)
GET_NUMBER(I64, int64_t, INT64_MIN, INT64_MAX)
GET_NUMBER(U8, uint8_t, 0, UINT8_MAX)
GET_NUMBER(U16, uint16_t, 0, UINT16_MAX)
GET_NUMBER(U32, uint32_t, 0, UINT32_MAX)
GET_NUMBER(U64, uint64_t, 0, UINT64_MAX)

DOOR_EXPORT(ncclParamGetStr);
ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char **out)
{
	const char *name = bound("ncclParamGetStr", h, out);

	if (!name)
		return ncclInvalidArgument;
	*out = value_or_empty(name);
	return ncclSuccess;
}

/* The raw form of a variable is its text with the zero at its end. */
DOOR_EXPORT(ncclParamGet);
ncclResult_t pncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len)
{
	const char *name = bound("ncclParamGet", h, out);

	if (!name)
		return ncclInvalidArgument;
	if (!len)
		return invalid("ncclParamGet: len is NULL");
	const char *value = value_or_empty(name);
	*len = (int)strlen(value) + 1;
	if (*len > maxLen)
		return invalid("ncclParamGet: %s has %d bytes, more than maxLen = %d", name, *len, maxLen);
	memcpy(out, value, (size_t)*len);
	return ncclSuccess;
}

DOOR_EXPORT(ncclParamGetParameter);
ncclResult_t pncclParamGetParameter(const char *key, const char **value, int *valueLen)
{
	if (!key || !value || !valueLen)
		return invalid("ncclParamGetParameter: %s is NULL", !key     ? "key"
								    : !value ? "value"
									     : "valueLen");
	const char *name = find(key);
	*value = name ? value_or_empty(name) : NULL;
	*valueLen = name ? (int)strlen(*value) : 0;
	return name ? ncclSuccess : invalid("ncclParamGetParameter: there is no variable %s", key);
}

static pthread_once_t keys_once = PTHREAD_ONCE_INIT;
static const char **keys;

static void list_keys(void)
{
	int count = door_env_count();

	keys = malloc(((size_t)count + 1) * sizeof(*keys));
	for (int i = 0; keys && i < count; i++)
		keys[i] = door_env_name(i);
}

DOOR_EXPORT(ncclParamGetAllParameterKeys);
ncclResult_t pncclParamGetAllParameterKeys(const char ***table, int *tableLen)
{
	if (!table || !tableLen)
		return invalid("ncclParamGetAllParameterKeys: %s is NULL", table ? "tableLen" : "table");
	pthread_once(&keys_once, list_keys);
	if (!keys)
		return door_refuse(ncclSystemError, "ncclParamGetAllParameterKeys: no memory for %d names",
				   door_env_count());
	*table = keys;
	*tableLen = door_env_count();
	return ncclSuccess;
}

DOOR_EXPORT(ncclParamDumpAll);
void pncclParamDumpAll(void)
{
	for (int i = 0; i < door_env_count(); i++) {
		const char *value = door_env(door_env_name(i));
		log_line(LOG_INFO, -1, "%s %s%s", door_env_name(i), value ? "= " : "is not set",
			 value ? value : "");
	}
}
