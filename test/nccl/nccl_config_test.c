/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs of NCCL's interface: every size and version that NCCL has had, what is refused, what is kept. */
#include "test/helpers/unit.h"
#include "nccl_glue/config.h"

static char why[256];

/* The forms of ncclConfig_t: bytes, the versions that have it, and the last field with a meaning. */
struct form {
	size_t size;
	unsigned version;
	size_t last;
};

#define LAST(field) offsetof(ncclConfig_t, field)
static const struct form forms[] = {
	{ 24, 21400, LAST(blocking) },
	{ 24, 21605, LAST(blocking) },
	{ 40, 21701, LAST(netName) },
	{ 48, 21801, LAST(splitShare) },
	{ 48, 22503, LAST(splitShare) },
	{ 48, 22602, LAST(trafficClass) },
	{ 72, 22703, LAST(nvlsCTAs) },
	{ 80, 22803, LAST(nvlinkCentricSched) },
	{ 80, 22809, LAST(nvlinkCentricSched) },
	{ 88, 22902, LAST(numRmaCtx) },
	{ 96, 23003, LAST(maxP2pPeers) },
	{ 96, 23004, LAST(maxP2pPeers) },
	{ 96, 23007, LAST(graphStreamOrdering) },
	{ 112, 23102, LAST(hostCftMode) },
	{ 120, 23203, LAST(nvlsHostMode) },
};
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

/* The fields that are ignored, by offset. */
static const size_t ignored[] = {
	LAST(cgaClusterSize),
	LAST(netName),
	LAST(splitShare),
	LAST(trafficClass),
	LAST(collnetEnable),
	LAST(shrinkShare),
	LAST(nvlsCTAs),
	LAST(nChannelsPerNetPeer),
	LAST(nvlinkCentricSched),
	LAST(graphUsageMode),
	LAST(numRmaCtx),
	LAST(maxP2pPeers),
	LAST(graphStreamOrdering),
	LAST(launchOrderImplicit),
	LAST(numRmaSig),
	LAST(rmaEagerInit),
	LAST(hostCftMode),
	LAST(nvlsHostMode),
};
enum { IGNORED = sizeof(ignored) / sizeof(ignored[0]) };

static unsigned ignored_to(size_t last)
{
	unsigned mask = 0;

	for (int i = 0; i < IGNORED; i++)
		if (ignored[i] <= last)
			mask |= DOOR_FIELD_BIT(ignored[i]);
	return mask;
}

/* A struct in which each number is 1 and each name is set, as the newest version has it. */
static ncclConfig_t all_ones(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	for (size_t at = LAST(blocking); at <= LAST(nvlsHostMode); at += sizeof(int))
		memcpy((char *)&config + at, &(int){ 1 }, sizeof(int));
	config.netName = "Socket";
	config.commName = "model";
	return config;
}

/* Exactly form->size bytes, so that a read beyond them is seen by the address sanitizer; garbage after the last field. */
static void *make(const struct form *form, const ncclConfig_t *values)
{
	char *bytes = malloc(form->size);
	size_t last = form->last + (form->last == LAST(netName) ? sizeof(char *) : sizeof(int));

	assert_non_null(bytes);
	memcpy(bytes, values, form->size);
	memset(bytes + last, 0x5a, form->size - last);
	memcpy(bytes + offsetof(ncclConfig_t, size), &form->size, sizeof(size_t));
	memcpy(bytes + offsetof(ncclConfig_t, version), &form->version, sizeof(unsigned));
	return bytes;
}

UNIT_TEST(test_forms)
{
	ncclConfig_t ones = all_ones();
	struct door_config config;

	for (int i = 0; i < FORMS; i++) {
		const struct form *form = &forms[i];
		void *given = make(form, &ones);
		assert_int_equal(door_config_read(given, &config, why, sizeof(why)), ncclSuccess);
		assert_int_equal(config.ignored, ignored_to(form->last));
		assert_int_equal(config.blocking, 1);
		assert_int_equal(config.max_ctas, form->version >= 21700);
		assert_int_equal(config.cta_policy, form->version >= 22700);
		assert_string_equal(config.name, form->version >= 22700 ? "model" : "");
		free(given);
	}
}

/* Nothing set: the defaults, whatever the version. */
UNIT_TEST(test_unset)
{
	ncclConfig_t unset = NCCL_CONFIG_INITIALIZER;
	struct door_config config;
	char text[64];

	for (int i = -1; i < FORMS; i++) {
		void *given = i < 0 ? NULL : make(&forms[i], &unset);
		memset(&config, 0xff, sizeof(config));
		assert_int_equal(door_config_read(given, &config, why, sizeof(why)), ncclSuccess);
		assert_int_equal(config.ignored, 0);
		assert_int_equal(config.blocking, 1);
		assert_int_equal(config.min_ctas, 0);
		assert_int_equal(config.max_ctas, 0);
		assert_int_equal(config.cta_policy, NCCL_CTA_POLICY_DEFAULT);
		assert_string_equal(config.name, "");
		assert_int_equal(door_config_ignored(&config, text, sizeof(text)), 0);
		assert_string_equal(text, "");
		free(given);
	}
}

/* A size that cuts a field: the field is unset, not half of it read. */
UNIT_TEST(test_cut)
{
	ncclConfig_t given = all_ones();
	struct door_config config;

	for (given.size = 16; given.size <= sizeof(given); given.size++) {
		unsigned whole = 0;
		for (int i = 0; i < IGNORED; i++)
			if (ignored[i] + (ignored[i] == LAST(netName) ? sizeof(char *) : sizeof(int)) <=
			    given.size)
				whole |= DOOR_FIELD_BIT(ignored[i]);
		assert_int_equal(door_config_read(&given, &config, why, sizeof(why)), ncclSuccess);
		assert_int_equal(config.ignored, whole);
	}
}

/* A version to come: its fields are not read. */
UNIT_TEST(test_future)
{
	struct {
		ncclConfig_t known;
		int more[20];
	} given = { .known = all_ones() };
	struct door_config config;

	memset(given.more, 0x5a, sizeof(given.more));
	given.known.size = sizeof(given);
	given.known.version = 29900;
	given.known.blocking = 0;
	assert_int_equal(door_config_read(&given.known, &config, why, sizeof(why)), ncclSuccess);
	assert_int_equal(config.ignored, ignored_to(LAST(nvlsHostMode)));
	assert_int_equal(config.blocking, 0);
}

UNIT_TEST(test_magic)
{
	ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
	struct door_config config = { .min_ctas = 17 };

	given.magic = 0xcafebabe;
	assert_int_equal(door_config_read(&given, &config, why, sizeof(why)), ncclInvalidArgument);
	assert_non_null(strstr(why, "0xcafebabe"));
	assert_int_equal(config.min_ctas, 17); /* untouched */
	given = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
	for (size_t size = 0; size < 12; size++) { /* a struct that ends before its magic number has none */
		given.size = size;
		assert_int_equal(door_config_read(&given, &config, why, sizeof(why)), ncclInvalidArgument);
	}
	memset(&given, 0, sizeof(given));
	assert_int_equal(door_config_read(&given, &config, why, sizeof(why)), ncclInvalidArgument);
}

static int try(size_t offset, int value)
{
	ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
	struct door_config config;

	memcpy((char *)&given + offset, &value, sizeof(value));
	why[0] = '\0';
	ncclResult_t result = door_config_read(&given, &config, why, sizeof(why));
	if (result)
		assert_true(strlen(why) > 20);
	return result;
}

/* The lowest and highest value that each field may have, and one to either side. */
UNIT_TEST(test_ranges)
{
	static const struct {
		const char *name;
		size_t offset;
		int low, high;
	} rows[] = {
		{ "blocking", LAST(blocking), 0, 1 },
		{ "cgaClusterSize", LAST(cgaClusterSize), 0, INT_MAX },
		{ "minCTAs", LAST(minCTAs), 1, INT_MAX },
		{ "maxCTAs", LAST(maxCTAs), 1, INT_MAX },
		{ "splitShare", LAST(splitShare), 0, 1 },
		{ "trafficClass", LAST(trafficClass), INT_MIN, INT_MAX },
		{ "collnetEnable", LAST(collnetEnable), 0, 1 },
		{ "CTAPolicy", LAST(CTAPolicy), 0, 3 },
		{ "shrinkShare", LAST(shrinkShare), 0, 1 },
		{ "nvlsCTAs", LAST(nvlsCTAs), 1, INT_MAX },
		{ "nChannelsPerNetPeer", LAST(nChannelsPerNetPeer), 1, 64 },
		{ "nvlinkCentricSched", LAST(nvlinkCentricSched), 0, 1 },
		{ "graphUsageMode", LAST(graphUsageMode), 0, 2 },
		{ "numRmaCtx", LAST(numRmaCtx), 0, INT_MAX },
		{ "maxP2pPeers", LAST(maxP2pPeers), 1, INT_MAX },
		{ "graphStreamOrdering", LAST(graphStreamOrdering), 0, 1 },
		{ "launchOrderImplicit", LAST(launchOrderImplicit), 0, 1 },
		{ "numRmaSig", LAST(numRmaSig), 0, INT_MAX },
		{ "rmaEagerInit", LAST(rmaEagerInit), 0, 1 },
		{ "hostCftMode", LAST(hostCftMode), 1, 3 },
		{ "nvlsHostMode", LAST(nvlsHostMode), 0, 3 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(try(rows[i].offset, rows[i].low), ncclSuccess);
		assert_int_equal(try(rows[i].offset, rows[i].high), ncclSuccess);
		assert_int_equal(try(rows[i].offset, NCCL_CONFIG_UNDEF_INT), ncclSuccess);
		if (rows[i].low > INT_MIN) {
			assert_int_equal(try(rows[i].offset, rows[i].low - 1), ncclInvalidArgument);
			assert_non_null(strstr(why, rows[i].name));
		}
		if (rows[i].high < INT_MAX)
			assert_int_equal(try(rows[i].offset, rows[i].high + 1), ncclInvalidArgument);
	}
	assert_int_equal(try(LAST(nvlsHostMode), ncclNvlsHostModeDisable), ncclSuccess);
}

static struct door_config read_ctas(int least, int most, int policy, ncclResult_t expected)
{
	ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
	struct door_config config = { 0 };

	given.minCTAs = least;
	given.maxCTAs = most;
	given.CTAPolicy = policy;
	assert_int_equal(door_config_read(&given, &config, why, sizeof(why)), expected);
	return config;
}

UNIT_TEST(test_ctas)
{
	const int unset = NCCL_CONFIG_UNDEF_INT;
	struct door_config config = read_ctas(4, 32, NCCL_CTA_POLICY_ZERO, ncclSuccess);

	assert_int_equal(config.min_ctas, 4);
	assert_int_equal(config.max_ctas, 32);
	assert_int_equal(config.cta_policy, NCCL_CTA_POLICY_ZERO);
	config = read_ctas(100, 1000, NCCL_CTA_POLICY_ZERO | NCCL_CTA_POLICY_EFFICIENCY, ncclSuccess);
	assert_int_equal(config.min_ctas, DOOR_MAX_CTAS);
	assert_int_equal(config.max_ctas, DOOR_MAX_CTAS);
	assert_int_equal(config.cta_policy, NCCL_CTA_POLICY_ZERO);
	assert_int_equal(read_ctas(4, unset, unset, ncclSuccess).min_ctas, 4);
	assert_int_equal(read_ctas(unset, 4, unset, ncclSuccess).max_ctas, 4);
	read_ctas(5, 4, unset, ncclInvalidArgument);
	assert_non_null(strstr(why, "5"));
}

/* Names are copied, from any address, and cut where they are too long. */
UNIT_TEST(test_names)
{
	ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
	struct door_config config;
	char bytes[2 + sizeof(ncclConfig_t)], text[400];

	strcpy(text + 1, "unaligned");
	given.commName = text + 1;
	given.netName = "";
	memcpy(bytes + 1, &given, sizeof(given));
	assert_int_equal(
	    door_config_read((const ncclConfig_t *)(void *)(bytes + 1), &config, why, sizeof(why)),
	    ncclSuccess);
	memset(text, 'x', sizeof(text));
	assert_string_equal(config.name, "unaligned");
	text[sizeof(text) - 1] = '\0';
	given.commName = text;
	assert_int_equal(door_config_read(&given, &config, why, sizeof(why)), ncclSuccess);
	assert_int_equal(strlen(config.name), DOOR_NAME_BYTES - 1);
}

UNIT_TEST(test_ignored_names)
{
	ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
	struct door_config config;
	char text[400], few[12];

	given.netName = "IB";
	given.splitShare = 0;
	assert_int_equal(door_config_read(&given, &config, why, sizeof(why)), ncclSuccess);
	assert_int_equal(door_config_ignored(&config, text, sizeof(text)), 2);
	assert_string_equal(text, "splitShare, netName");
	assert_int_equal(door_config_ignored(&config, few, sizeof(few)), 2);
	assert_string_equal(few, "splitShare,");
	given = all_ones();
	assert_int_equal(door_config_read(&given, &config, why, sizeof(why)), ncclSuccess);
	assert_int_equal(door_config_ignored(&config, text, sizeof(text)), IGNORED);
	assert_null(strstr(text, "CTAPolicy"));
}

/* The smallest room for the reason. */
UNIT_TEST(test_short_why)
{
	ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
	struct door_config config;
	char little[4] = "xxx";

	given.blocking = 2;
	assert_int_equal(door_config_read(&given, &config, little, sizeof(little)), ncclInvalidArgument);
	assert_string_equal(little, "ncc");
}

UNIT_TEST(test_coll_config)
{
	ncclConfigExt_t option = { .key = { 7, 8 } };
	ncclCollConfig_t given = NCCL_COLLCONFIG_INITIALIZER;
	struct door_coll_config config;
	cudaEvent_t event = (cudaEvent_t)(void *)&option;

	assert_int_equal(door_coll_config_read(NULL, &config, why, sizeof(why)), ncclSuccess);
	assert_false(config.has_hint);
	assert_null(config.launched);
	for (int hint = 0; hint < 5; hint++) {
		ncclCollConfig_t one = NCCL_COLLCONFIG_INITIALIZER;
		if (hint == 0)
			one.ext = &option;
		else if (hint == 1)
			one.minCTAs = 2;
		else if (hint == 2)
			one.maxCTAs = 200;
		else if (hint == 3)
			one.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
		else
			one.algSelection = "RING_SIMPLE";
		assert_int_equal(door_coll_config_read(&one, &config, why, sizeof(why)), ncclSuccess);
		assert_true(config.has_hint);
	}
	given.minCTAs = 2;
	given.forceAlgSelection = 0;
	given.launchCompletionEvent = event;
	assert_int_equal(door_coll_config_read(&given, &config, why, sizeof(why)), ncclSuccess);
	assert_ptr_equal(config.launched, event);
	given.size = 64; /* of 2.31, without the event */
	given.version = 23102;
	ncclCollConfig_t *old = malloc(64);
	assert_non_null(old);
	memcpy(old, &given, 64);
	assert_int_equal(door_coll_config_read(old, &config, why, sizeof(why)), ncclSuccess);
	assert_null(config.launched);
	assert_true(config.has_hint);
	free(old);
	given.size = 10000;
	given.version = 29900;
	assert_int_equal(door_coll_config_read(&given, &config, why, sizeof(why)), ncclSuccess);
	assert_ptr_equal(config.launched, event);
}

static void refuse_coll(ncclCollConfig_t given, const char *word)
{
	struct door_coll_config config = { .has_hint = true };

	assert_int_equal(door_coll_config_read(&given, &config, why, sizeof(why)), ncclInvalidArgument);
	assert_non_null(strstr(why, word));
	assert_true(config.has_hint);
}

UNIT_TEST(test_coll_config_refused)
{
	const ncclCollConfig_t unset = NCCL_COLLCONFIG_INITIALIZER;
	ncclCollConfig_t given = unset;

	given.magic = NCCL_SIM_INFO_MAGIC;
	refuse_coll(given, "0x74685283");
	given = unset;
	given.size = 63;
	refuse_coll(given, "63");
	given = unset;
	given.forceAlgSelection = 2;
	refuse_coll(given, "forceAlgSelection");
	given = unset;
	given.CTAPolicy = 4;
	refuse_coll(given, "CTAPolicy");
	given.CTAPolicy = -1;
	refuse_coll(given, "CTAPolicy");
}
