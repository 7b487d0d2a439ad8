/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <stdio.h>
#include <string.h>

enum { UNSET = NCCL_CONFIG_UNDEF_INT, MAX_CTAS = DOOR_MAX_CTAS };

enum { HAS_EFFECT = 0, IGNORED = 1, IS_MASK_OR_MAX = 2, IS_STRING = 4 };

/* A field of ncclConfig_t: since which version its bytes have a meaning, and which values of a number NCCL accepts. */
struct field {
	const char *name;
	size_t offset, bytes;
	unsigned since;
	int low, high;
	unsigned flags;
};

#define FIELD(name) #name, offsetof(ncclConfig_t, name), sizeof(((ncclConfig_t *)0)->name)
static const struct field fields[] = {
	{ FIELD(blocking), 21400, 0, 1, HAS_EFFECT },
	{ FIELD(cgaClusterSize), 21700, 0, INT_MAX, IGNORED },
	{ FIELD(minCTAs), 21700, 1, INT_MAX, HAS_EFFECT },
	{ FIELD(maxCTAs), 21700, 1, INT_MAX, HAS_EFFECT },
	{ FIELD(splitShare), 21800, 0, 1, IGNORED },
	{ FIELD(trafficClass), 22600, INT_MIN, INT_MAX, IGNORED },
	{ FIELD(collnetEnable), 22700, 0, 1, IGNORED },
	{ FIELD(CTAPolicy), 22700, 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO, HAS_EFFECT },
	{ FIELD(shrinkShare), 22700, 0, 1, IGNORED },
	{ FIELD(nvlsCTAs), 22700, 1, INT_MAX, IGNORED },
	{ FIELD(nChannelsPerNetPeer), 22800, 1, MAX_CTAS, IGNORED },
	{ FIELD(nvlinkCentricSched), 22800, 0, 1, IGNORED },
	{ FIELD(graphUsageMode), 22900, 0, 2, IGNORED },
	{ FIELD(numRmaCtx), 22900, 0, INT_MAX, IGNORED },
	{ FIELD(maxP2pPeers), 23000, 1, INT_MAX, IGNORED },
	{ FIELD(graphStreamOrdering), 23005, 0, 1, IGNORED },
	{ FIELD(launchOrderImplicit), 23100, 0, 1, IGNORED },
	{ FIELD(numRmaSig), 23100, 0, INT_MAX, IGNORED },
	{ FIELD(rmaEagerInit), 23100, 0, 1, IGNORED },
	{ FIELD(hostCftMode), 23100, ncclHostCftEnable, ncclHostCftFallback, IGNORED },
	{ FIELD(nvlsHostMode), 23200, 0, 3, IGNORED | IS_MASK_OR_MAX },
	{ FIELD(netName), 21700, 0, 0, IGNORED | IS_STRING },
	{ FIELD(commName), 22700, 0, 0, IS_STRING },
};
_Static_assert(sizeof(ncclConfig_t) <= offsetof(ncclConfig_t, blocking) + 32 * sizeof(int), "each has a bit");
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static const ncclConfig_t unset_config = NCCL_CONFIG_INITIALIZER;

static int number_of(const ncclConfig_t *config, const struct field *field)
{
	int value;

	memcpy(&value, (const char *)config + field->offset, sizeof(value));
	return value;
}

static bool is_set(const ncclConfig_t *config, const struct field *field)
{
	return memcmp((const char *)config + field->offset, (const char *)&unset_config + field->offset,
		      field->bytes) != 0;
}

static bool fits(const struct field *field, int value)
{
	return value == UNSET || (value >= field->low && value <= field->high) ||
	       (field->flags & IS_MASK_OR_MAX && value == INT_MAX);
}

/* Makes of the program's struct, of any version, one of the newest: drops what stands in fields that it does not have, by its size or version. */
static ncclConfig_t modern(const ncclConfig_t *given)
{
	ncclConfig_t config = unset_config;
	size_t size;

	config.magic = 0;
	memcpy(&size, given, sizeof(size));
	memcpy(&config, given, size < sizeof(config) ? size : sizeof(config));
	for (const struct field *f = fields; f < fields + FIELDS; f++)
		if (config.version < f->since || size < f->offset + f->bytes)
			memcpy((char *)&config + f->offset, (const char *)&unset_config + f->offset,
			       f->bytes);
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
	for (const struct field *field = fields; field < fields + FIELDS; field++) {
		const int value = field->flags & IS_STRING ? UNSET : number_of(config, field);
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
	snprintf(out->name, sizeof(out->name), "%s", config.commName ? config.commName : "");
	for (const struct field *f = fields; f < fields + FIELDS; f++)
		if (f->flags & IGNORED && is_set(&config, f))
			out->ignored |= DOOR_FIELD_BIT(f->offset);
	return ncclSuccess;
}

int door_config_ignored(const struct door_config *config, char *text, size_t bytes)
{
	int count = 0;

	text[0] = '\0';
	for (const struct field *f = fields; f < fields + FIELDS; f++) {
		const size_t used = strlen(text);
		if (DOOR_FIELD_BIT(f->offset) & config->ignored)
			snprintf(text + used, bytes - used, "%s%s", count++ ? ", " : "", f->name);
	}
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
