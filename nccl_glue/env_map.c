/* SPDX-License-Identifier: BSD-3-Clause */
#include "env_map.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "net/network.h"

/* The index of the first length characters of text among words, -1 if it is none of them. */
static int find_word(const char *const *words, const char *text, size_t length)
{
	for (int i = 0; words[i]; i++)
		if (strlen(words[i]) == length && !strncasecmp(words[i], text, length))
			return i;
	return -1;
}

/* NCCL_DEBUG=VERSION and NONE print no more than what is printed without them. */
static const char *map_debug(const char *value, const char **why)
{
	static const char *const words[] = { "VERSION", "NONE", "WARN", "ABORT", "INFO", "TRACE", NULL };
	static const char *const levels[] = { NULL, NULL, "warn", "info", "info", "trace" };
	int i = find_word(words, value, strlen(value));

	if (i < 0)
		*why = "expected VERSION, WARN, INFO or TRACE";
	return i < 0 ? NULL : levels[i];
}

static const char *const protos[] = { "LL", "LL128", "Simple", NULL };

/* Bits of the protocols in a list with commas, -1 if it names another one. */
static int read_protos(const char *list)
{
	int bits = 0;

	for (;; list++) {
		size_t length = strcspn(list, ",");
		int i = find_word(protos, list, length);
		if (i < 0)
			return -1;
		bits |= 1 << i;
		list += length;
		if (!*list)
			return bits;
	}
}

static const char *map_proto(const char *value, const char **why)
{
	enum { ALL = 7 };
	int excludes = *value == '^', bits;

	if (strpbrk(value, ";:")) {
		*why = "Corale has no protocols of single collectives, so all may use each one";
		return NULL;
	}
	bits = read_protos(value + excludes);
	if (bits < 0) {
		*why = "expected a list of LL, LL128 and Simple, with ^ before what is excluded";
		return NULL;
	}
	if (excludes)
		bits = ALL & ~bits;
	switch (bits) {
	case 1:
		return "LL";
	case 2:
		return "LL128";
	case 4:
		return "FIFO";
	case ALL:
		return NULL;
	default:
		*why = "Corale is led to one protocol or to none, so it uses all";
		return NULL;
	}
}

static const char all_reduce[] = "allreduce:";

/* "[list;]collective:list;...", upper or lower case. The list that holds for all_reduce: its own, or the one without a collective; *length of it. NULL: none. */
static const char *find_list(const char *value, size_t *length)
{
	const char *list = NULL;
	for (;; value++) {
		const size_t n = strcspn(value, ";"), name = sizeof all_reduce - 1;
		if (n > name && !strncasecmp(value, all_reduce, name)) {
			*length = n - name;
			return value + name;
		}
		if (!list && n && !memchr(value, ':', n)) {
			list = value;
			*length = n;
		}
		value += n;
		if (!*value)
			return list;
	}
}

static int leaves_one(const char *value, const char *const *words)
{
	size_t length = 0;
	const char *list = value ? find_list(value, &length) : NULL;
	for (; list && *words; words++)
		if (strlen(*words) == length && !strncasecmp(list, *words, length))
			return 1;
	return 0;
}

int door_map_pins_algorithm(const char *value)
{
	static const char *const words[] = { "Tree", "Ring", NULL };
	return leaves_one(value, words);
}

int door_map_pins_simple(const char *value)
{
	static const char *const words[] = { "Simple", NULL };
	return leaves_one(value, words);
}

static const char *map_algo(const char *value, const char **why)
{
	if (!door_map_pins_algorithm(value))
		*why = "the planner chooses algorithms for each call; expected Tree or Ring alone, which is "
		       "one of the pins of sums";
	return NULL;
}

static const char *map_cta_policy(const char *value, const char **why)
{
	static const char *const words[] = { "DEFAULT", "0", "EFFICIENCY", "1", "ZERO", "2", NULL };
	static const char *const policies[] = { "auto", "efficient", "zero" };
	int i = find_word(words, value, strlen(value));

	if (i < 0)
		*why = "expected DEFAULT, EFFICIENCY or ZERO, one of them";
	return i < 0 ? NULL : policies[i / 2];
}

static const char *map_net(const char *value, const char **why)
{
	static const char *const words[] = { "Socket", "IB", NULL };
	const int i = find_word(words, value, strlen(value));

	if (i < 0)
		*why = "the networks are Socket and IB, both by UCX";
	return i < 0 ? NULL : value;
}

static const char *map_gdr_level(const char *value, const char **why)
{
	static const char *const never[] = { "LOC", "0", NULL };

	if (find_word(never, value, strlen(value)) >= 0)
		return "no";
	*why = "it is tried which paths work and are faster, and only LOC forbids all of them";
	return NULL;
}

static const char *map_flush(const char *value, const char **why)
{
	(void)why;
	return strcmp(value, "1") ? NULL : "yes";
}

/* A number that settings have as a text. */
#define NUMBER(name, from, to)                                                                               \
	{                                                                                                    \
		name, name, .least = from, .most = to,                                                       \
			    .refusal = "expected a whole number from " #from " to " #to                      \
	}

const struct door_mapping door_mappings[] = {
	{ "NCCL_DEBUG", "CORALE_DEBUG", .map = map_debug },
	{ "NCCL_PROTO", "CORALE_PROTO", .map = map_proto },
	{ "NCCL_ALGO", NULL, .map = map_algo },
	{ "NCCL_CTA_POLICY", "CORALE_CTA_POLICY", .map = map_cta_policy },
	{ "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", .map = NULL },
	{ "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", .map = NULL },
	{ "NCCL_NET", "NCCL_NET", .map = map_net },
	{ "NCCL_NET_GDR_LEVEL", "CORALE_GPUDIRECT", .map = map_gdr_level },
	{ "NCCL_NET_FORCE_FLUSH", "CORALE_GPUDIRECT_FLUSH", .map = map_flush },
	{ "NCCL_IB_DISABLE", "NCCL_IB_DISABLE", .map = NULL },
	{ "NCCL_IB_HCA", "NCCL_IB_HCA", .map = NULL },
	NUMBER("NCCL_IB_GID_INDEX", -1, 255),
	NUMBER("NCCL_IB_TC", 0, 255),
	NUMBER("NCCL_IB_SL", 0, 15),
	NUMBER("NCCL_IB_TIMEOUT", 0, 31),
	NUMBER("NCCL_IB_RETRY_CNT", 0, 7),
	{ .name = NULL },
};

const char *door_map(const struct door_mapping *mapping, const char *value, const char **why)
{
	long number;

	if (mapping->map)
		return mapping->map(value, why);
	if (!mapping->refusal || !network_number(value, mapping->least, mapping->most, &number))
		return value;
	*why = mapping->refusal;
	return NULL;
}
