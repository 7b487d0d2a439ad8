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
		       "one of the "
		       "pins of sums";
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

/* A setting of the same name, for which the value may be in a file of NCCL's. */
static const char *keep(const char *value, const char **why)
{
	(void)why;
	return value;
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

/* A number that settings have as a text; what is malformed is not offered. */
static const char *keep_number(const char *value, long least, long most, const char *refusal,
			       const char **why)
{
	long number;

	if (!network_number(value, least, most, &number))
		return value;
	*why = refusal;
	return NULL;
}

static const char *map_gid_index(const char *value, const char **why)
{
	return keep_number(value, -1, 255, "expected a whole number from -1 to 255", why);
}

static const char *map_traffic_class(const char *value, const char **why)
{
	return keep_number(value, 0, 255, "expected a whole number from 0 to 255", why);
}

static const char *map_service_level(const char *value, const char **why)
{
	return keep_number(value, 0, 15, "expected a whole number from 0 to 15", why);
}

static const char *map_timeout(const char *value, const char **why)
{
	return keep_number(value, 0, 31, "expected a whole number from 0 to 31", why);
}

static const char *map_retries(const char *value, const char **why)
{
	return keep_number(value, 0, 7, "expected a whole number from 0 to 7", why);
}

static const struct door_mapping mappings[] = {
	{ "NCCL_DEBUG", "CORALE_DEBUG", map_debug },
	{ "NCCL_PROTO", "CORALE_PROTO", map_proto },
	{ "NCCL_ALGO", NULL, map_algo },
	{ "NCCL_CTA_POLICY", "CORALE_CTA_POLICY", map_cta_policy },
	{ "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", keep },
	{ "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", keep },
	{ "NCCL_NET", "NCCL_NET", map_net },
	{ "NCCL_NET_GDR_LEVEL", "CORALE_GPUDIRECT", map_gdr_level },
	{ "NCCL_NET_FORCE_FLUSH", "CORALE_GPUDIRECT_FLUSH", map_flush },
	{ "NCCL_IB_DISABLE", "NCCL_IB_DISABLE", keep },
	{ "NCCL_IB_HCA", "NCCL_IB_HCA", keep },
	{ "NCCL_IB_GID_INDEX", "NCCL_IB_GID_INDEX", map_gid_index },
	{ "NCCL_IB_TC", "NCCL_IB_TC", map_traffic_class },
	{ "NCCL_IB_SL", "NCCL_IB_SL", map_service_level },
	{ "NCCL_IB_TIMEOUT", "NCCL_IB_TIMEOUT", map_timeout },
	{ "NCCL_IB_RETRY_CNT", "NCCL_IB_RETRY_CNT", map_retries },
};

enum { MAPPINGS = sizeof(mappings) / sizeof(*mappings) };

int door_mappings(void)
{
	return MAPPINGS;
}

const struct door_mapping *door_mapping(int i)
{
	return i >= 0 && i < MAPPINGS ? &mappings[i] : NULL;
}
