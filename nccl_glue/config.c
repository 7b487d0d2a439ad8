/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <stdio.h>
#include <string.h>

enum { UNSET = NCCL_CONFIG_UNDEF_INT, MAX_CTAS = DOOR_MAX_CTAS };

/* A field of ncclConfig_t: since which version its bytes have a meaning, and which values NCCL accepts. Bits are for nvlsHostMode, which
 * is a mask or INT_MAX. */
struct field {
	const char *name;
	size_t offset;
	unsigned since;
	int low, high;
	unsigned ignored; /* its bit in struct door_config, 0: it has an effect */
	bool bits;
};

#define FIELD(name) #name, offsetof(ncclConfig_t, name)
static const struct field numbers[] = {
	{ FIELD(blocking), 21400, 0, 1, 0, false },
	{ FIELD(cgaClusterSize), 21700, 0, INT_MAX, DOOR_CGA_CLUSTER_SIZE, false },
	{ FIELD(minCTAs), 21700, 1, INT_MAX, 0, false },
	{ FIELD(maxCTAs), 21700, 1, INT_MAX, 0, false },
	{ FIELD(splitShare), 21800, 0, 1, DOOR_SPLIT_SHARE, false },
	{ FIELD(trafficClass), 22600, INT_MIN, INT_MAX, DOOR_TRAFFIC_CLASS, false },
	{ FIELD(collnetEnable), 22700, 0, 1, DOOR_COLLNET_ENABLE, false },
	{ FIELD(CTAPolicy), 22700, 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO, 0, false },
	{ FIELD(shrinkShare), 22700, 0, 1, DOOR_SHRINK_SHARE, false },
	{ FIELD(nvlsCTAs), 22700, 1, INT_MAX, DOOR_NVLS_CTAS, false },
	{ FIELD(nChannelsPerNetPeer), 22800, 1, MAX_CTAS, DOOR_CHANNELS_PER_NET_PEER, false },
	{ FIELD(nvlinkCentricSched), 22800, 0, 1, DOOR_NVLINK_CENTRIC_SCHED, false },
	{ FIELD(graphUsageMode), 22900, 0, 2, DOOR_GRAPH_USAGE_MODE, false },
	{ FIELD(numRmaCtx), 22900, 0, INT_MAX, DOOR_NUM_RMA_CTX, false },
	{ FIELD(maxP2pPeers), 23000, 1, INT_MAX, DOOR_MAX_P2P_PEERS, false },
	{ FIELD(graphStreamOrdering), 23005, 0, 1, DOOR_GRAPH_STREAM_ORDERING, false },
	{ FIELD(launchOrderImplicit), 23100, 0, 1, DOOR_LAUNCH_ORDER_IMPLICIT, false },
	{ FIELD(numRmaSig), 23100, 0, INT_MAX, DOOR_NUM_RMA_SIG, false },
	{ FIELD(rmaEagerInit), 23100, 0, 1, DOOR_RMA_EAGER_INIT, false },
	{ FIELD(hostCftMode), 23100, ncclHostCftEnable, ncclHostCftFallback, DOOR_HOST_CFT_MODE, false },
	{ FIELD(nvlsHostMode), 23200, 0, 3, DOOR_NVLS_HOST_MODE, true },
};
/* Their names are strings: low, high and bits mean nothing. */
static const struct field strings[] = {
	{ FIELD(netName), 21700, 0, 0, DOOR_NET_NAME, false },
	{ FIELD(commName), 22700, 0, 0, 0, false },
};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]), STRINGS = sizeof(strings) / sizeof(strings[0]) };

static const ncclConfig_t unset_config = NCCL_CONFIG_INITIALIZER;

static int number_of(const ncclConfig_t *config, const struct field *field)
{
	int value;

	memcpy(&value, (const char *)config + field->offset, sizeof(value));
	return value;
}

static const char *string_of(const ncclConfig_t *config, const struct field *field)
{
	const char *value;

	memcpy(&value, (const char *)config + field->offset, sizeof(value));
	return value;
}

static bool fits(const struct field *field, int value)
{
	return value == UNSET || (value >= field->low && value <= field->high) ||
	       (field->bits && value == INT_MAX);
}

/* Drops what stands in a field that the program's struct, by its size or version, does not have. */
static void drop_unknown(ncclConfig_t *config, const struct field *field, size_t field_bytes, size_t size)
{
	if (config->version < field->since || size < field->offset + field_bytes)
		memcpy((char *)config + field->offset, (const char *)&unset_config + field->offset,
		       field_bytes);
}

/* Makes of the program's struct, of any version, one of the newest. */
static ncclConfig_t modern(const ncclConfig_t *given)
{
	ncclConfig_t config = unset_config;
	size_t size;

	config.magic = 0;
	memcpy(&size, given, sizeof(size));
	memcpy(&config, given, size < sizeof(config) ? size : sizeof(config));
	for (int i = 0; i < NUMBERS; i++)
		drop_unknown(&config, &numbers[i], sizeof(int), size);
	for (int i = 0; i < STRINGS; i++)
		drop_unknown(&config, &strings[i], sizeof(const char *), size);
	return config;
}

static bool refuse(const ncclConfig_t *config, char *why, size_t bytes)
{
	if (config->magic != NCCL_API_MAGIC) {
		snprintf(why, bytes,
			 "ncclConfig_t has the magic number 0x%x instead of 0x%x: set it to "
			 "NCCL_CONFIG_INITIALIZER first",
			 config->magic, NCCL_API_MAGIC);
		return true;
	}
	for (int i = 0; i < NUMBERS; i++) {
		const struct field *field = &numbers[i];
		int value = number_of(config, field);
		if (fits(field, value))
			continue;
		if (field->high == INT_MAX)
			snprintf(why, bytes,
				 "ncclConfig_t has %s = %d: it must be at least %d, or NCCL_CONFIG_UNDEF_INT",
				 field->name, value, field->low);
		else
			snprintf(why, bytes,
				 "ncclConfig_t has %s = %d: it must be %d to %d, or NCCL_CONFIG_UNDEF_INT",
				 field->name, value, field->low, field->high);
		return true;
	}
	if (config->minCTAs != UNSET && config->maxCTAs != UNSET && config->minCTAs > config->maxCTAs) {
		snprintf(why, bytes, "ncclConfig_t has minCTAs = %d, more than maxCTAs = %d", config->minCTAs,
			 config->maxCTAs);
		return true;
	}
	return false;
}

/* NCCL lowers more than DOOR_MAX_CTAS without a word. */
static int ctas(int value)
{
	if (value <= 0)
		return 0;
	return value < MAX_CTAS ? value : MAX_CTAS;
}

/* With both, NCCL drops efficiency. */
static int policy(int value)
{
	return value & NCCL_CTA_POLICY_ZERO ? NCCL_CTA_POLICY_ZERO : value;
}

static void copy_name(char *name, const char *given)
{
	snprintf(name, DOOR_NAME_BYTES, "%s", given ? given : "");
}

ncclResult_t door_config_read(const ncclConfig_t *given, struct door_config *out, char *why, size_t bytes)
{
	ncclConfig_t config = given ? modern(given) : unset_config;

	if (refuse(&config, why, bytes))
		return ncclInvalidArgument;
	memset(out, 0, sizeof(*out));
	out->blocking = config.blocking != 0;
	out->min_ctas = ctas(config.minCTAs);
	out->max_ctas = ctas(config.maxCTAs);
	out->cta_policy = config.CTAPolicy == UNSET ? NCCL_CTA_POLICY_DEFAULT : policy(config.CTAPolicy);
	copy_name(out->name, config.commName);
	copy_name(out->net_name, config.netName);
	for (int i = 0; i < NUMBERS; i++)
		if (number_of(&config, &numbers[i]) != UNSET)
			out->ignored |= numbers[i].ignored;
	for (int i = 0; i < STRINGS; i++)
		if (string_of(&config, &strings[i]))
			out->ignored |= strings[i].ignored;
	return ncclSuccess;
}

/* Appends the name of a field that was given in vain. */
static int append(const struct field *field, unsigned ignored, int count, char *text, size_t bytes)
{
	size_t used = strlen(text);

	if (!(field->ignored & ignored))
		return count;
	snprintf(text + used, bytes - used, "%s%s", count ? ", " : "", field->name);
	return count + 1;
}

int door_config_ignored(const struct door_config *config, char *text, size_t bytes)
{
	int count = 0;

	text[0] = '\0';
	for (int i = 0; i < NUMBERS; i++)
		count = append(&numbers[i], config->ignored, count, text, bytes);
	for (int i = 0; i < STRINGS; i++)
		count = append(&strings[i], config->ignored, count, text, bytes);
	return count;
}

static bool refuse_coll(const ncclCollConfig_t *config, char *why, size_t bytes)
{
	if (config->magic != NCCL_API_MAGIC)
		snprintf(why, bytes,
			 "ncclCollConfig_t has the magic number 0x%x instead of 0x%x: set it to "
			 "NCCL_COLLCONFIG_INITIALIZER first",
			 config->magic, NCCL_API_MAGIC);
	else if (config->forceAlgSelection != 0 && config->forceAlgSelection != 1)
		snprintf(why, bytes, "ncclCollConfig_t has forceAlgSelection = %d: it must be 0 or 1",
			 config->forceAlgSelection);
	else if (config->CTAPolicy != UNSET && (config->CTAPolicy < 0 || config->CTAPolicy > 3))
		snprintf(why, bytes,
			 "ncclCollConfig_t has CTAPolicy = %d: it must be 0 to 3, or NCCL_CONFIG_UNDEF_INT",
			 config->CTAPolicy);
	else
		return false;
	return true;
}

ncclResult_t door_coll_config_read(const ncclCollConfig_t *given, struct door_coll_config *out, char *why,
				   size_t bytes)
{
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
	size_t size = sizeof(config), first = offsetof(ncclCollConfig_t, launchCompletionEvent);

	if (given)
		memcpy(&size, given, sizeof(size));
	if (size < first) {
		snprintf(why, bytes,
			 "ncclCollConfig_t has %zu bytes: it must have at least %zu; set it to "
			 "NCCL_COLLCONFIG_INITIALIZER",
			 size, first);
		return ncclInvalidArgument;
	}
	if (given)
		memcpy(&config, given, size < sizeof(config) ? size : sizeof(config));
	if (config.version < 23200)
		config.launchCompletionEvent = NULL;
	if (refuse_coll(&config, why, bytes))
		return ncclInvalidArgument;
	out->has_hint = config.minCTAs > 0 || config.maxCTAs > 0 || config.CTAPolicy != UNSET ||
			(config.algSelection && *config.algSelection) || config.ext;
	out->launched = config.launchCompletionEvent;
	return ncclSuccess;
}
