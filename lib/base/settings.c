#include "settings.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "log.h"
#include "settings_value.h"
#include "status.h"

#define FIELD(member)                                                                                        \
	.offset = offsetof(struct settings, member), .bytes = sizeof(((struct settings *)0)->member)
#define MEBI ((uint64_t)1 << 20)
#define GIBI ((uint64_t)1 << 30)

static const char *const debug_levels[] = { "none", "error", "warn", "info", "trace", NULL };
static const char *const partials[] = { "type", "float32", NULL };
static const char *const references[] = { "no", "yes", "auto", NULL };
static const char *const protos[] = { "auto", "LL", "LL128", "SENTINEL", "FIFO", "DIRECT", "CE", NULL };
static const char *const cta_policies[] = { "auto", "efficient", "zero", NULL };
static const char *const nccl_devices[] = { "auto", "cuda", "host", NULL };
static const char *const ucx_messages[] = { "auto", "put", "tag", "am", NULL };

/* Order of the rows: the order of corale-info and docs/settings.md. */
static const struct settings_field fields[] = {
	{ .row = { "CORALE_DEBUG", "none, error, warn, info, trace", "warn",
		   "How much the library says; info names what each new kind of call runs by.", 0 },
	  .kind = SETTINGS_CHOICE,
	  FIELD(debug),
	  .choices = debug_levels },
	{ .row = { "CORALE_LOG_FILE", "path", "",
		   "Where log lines go instead of stderr; %p becomes the process id.", 0 },
	  .kind = SETTINGS_TEXT,
	  FIELD(log_file) },
	{ .row = { "CORALE_TIMEOUT", "seconds, 0: never", "600",
		   "How long a call waits for a peer before it fails; a communicator's configuration "
		   "overrides it.",
		   1 },
	  .kind = SETTINGS_DECIMAL,
	  FIELD(timeout),
	  .max = 1000000000 },
	{ .row = { "CORALE_MEMORY_CAP", "bytes", "4G",
		   "Windows, scratch and staging between nodes of one rank and communicator.", 1 },
	  .kind = SETTINGS_SIZE,
	  FIELD(memory_cap),
	  .min = MEBI,
	  .max = SIZE_MAX },
	{ .row = { "CORALE_NODE_SIZE", "ranks, 0: real nodes", "0",
		   "Treats every so many ranks of a host as a node of their own, for tests.", 1 },
	  .kind = SETTINGS_INTEGER,
	  FIELD(node_size),
	  .max = 1 << 20 },
	{ .row = { "CORALE_ALGO", "list of [collective:]name, ^name excludes", "",
		   "Forces algorithms, as \"ring\", \"all_reduce:ring,broadcast:flat\" or \"^ring\". A name "
		   "stands for longer ones, too: \"hier\" for hier_ring and all others; a warning names the "
		   "collectives of which it can't run all calls.",
		   1 },
	  .kind = SETTINGS_TEXT,
	  FIELD(algo) },
	{ .row = { "CORALE_REPRODUCIBLE", "yes, no", "no",
		   "Sums in rank order whatever the nodes, sizes and engines, at a price that corale-plan "
		   "prints.",
		   1 },
	  .kind = SETTINGS_BOOLEAN,
	  FIELD(reproducible) },
	{ .row = { "CORALE_PARTIALS", "type, float32", "type",
		   "What carries partial sums of 8- and 16-bit floats between ranks: their own type or "
		   "float32.",
		   1 },
	  .kind = SETTINGS_CHOICE,
	  FIELD(partials_float32),
	  .choices = partials },
	{ .row = { "CORALE_MAX_CHANNELS", "threads, 0: by cores", "0",
		   "The most threads that one rank uses for a call.", 1 },
	  .kind = SETTINGS_INTEGER,
	  FIELD(max_channels),
	  .max = 16 },
	{ .row = { "CORALE_GPU_WINDOW", "bytes", "62M",
		   "Memory of a GPU that its peers map for a communicator.", 1 },
	  .kind = SETTINGS_SIZE,
	  FIELD(gpu_window),
	  .min = 4 * MEBI,
	  .max = 4 * GIBI },
	{ .row = { "CORALE_PROTO", "auto, LL, LL128, SENTINEL, FIFO, DIRECT, CE", "auto",
		   "Forces the protocol by which data moves between GPUs; a warning names the calls that it "
		   "can't run.",
		   1 },
	  .kind = SETTINGS_NAME,
	  FIELD(proto),
	  .choices = protos },
	{ .row = { "CORALE_CODELETS", "yes, no", "yes",
		   "no: calls on GPUs run by the one kernel that runs any plan, instead of by kernels of "
		   "their own.",
		   1 },
	  .kind = SETTINGS_BOOLEAN,
	  FIELD(codelets) },
	{ .row = { "CORALE_MAX_CTAS", "blocks, 0: all of the GPU but one processor of 32", "0",
		   "The most blocks of one kernel on a GPU.", 1 },
	  .kind = SETTINGS_INTEGER,
	  FIELD(max_ctas),
	  .max = 1024 },
	{ .row = { "CORALE_CTA_POLICY", "auto, efficient, zero", "auto",
		   "efficient: few blocks, for calls beside computing, unless CORALE_MAX_CTAS is set; "
		   "zero: copy engines rather than blocks move what is only moved between GPUs into "
		   "registered memory; a communicator's configuration overrides it.",
		   1 },
	  .kind = SETTINGS_CHOICE,
	  FIELD(cta_policy),
	  .choices = cta_policies },
	{ .row = { "CORALE_CHECK_MEMORY", "yes, no", "no",
		   "Checks at each call on GPUs that registered memory was not freed, for about a "
		   "microsecond.",
		   0 },
	  .kind = SETTINGS_BOOLEAN,
	  FIELD(check_memory) },
	{ .row = { "CORALE_SLOT_BYTES", "bytes", "1M", "The most that one message through a window carries.",
		   1 },
	  .kind = SETTINGS_SIZE,
	  FIELD(slot_bytes),
	  .min = 512,
	  .max = 64 * MEBI,
	  .multiple = 512 },
	{ .row = { "CORALE_SLOTS", "messages", "8",
		   "Messages in flight on each ring of a window; larger ones fewer, as far as they fit into "
		   "two times CORALE_SLOT_BYTES.",
		   1 },
	  .kind = SETTINGS_INTEGER,
	  FIELD(slots),
	  .min = 2,
	  .max = 64 },
	{ .row = { "CORALE_CHUNK_BYTES", "bytes, 0: the planner chooses", "0",
		   "Forces the chunk in which a call is pipelined.", 1 },
	  .kind = SETTINGS_SIZE,
	  FIELD(chunk_bytes),
	  .max = GIBI,
	  .multiple = 512 },
	{ .row = { "CORALE_REFERENCE", "auto, yes, no", "auto",
		   "Large messages inside a node are read from the sender's memory (process_vm_readv).", 1 },
	  .kind = SETTINGS_CHOICE,
	  FIELD(reference),
	  .choices = references },
	{ .row = { "CORALE_REFERENCE_BYTES", "bytes", "64K",
		   "The smallest message that is read by reference.", 1 },
	  .kind = SETTINGS_SIZE,
	  FIELD(reference_bytes),
	  .max = SIZE_MAX },
	{ .row = { "CORALE_TRANSPORT", "auto, or a transport as corale-info lists them", "auto",
		   "What carries messages between nodes.", 1 },
	  .kind = SETTINGS_TEXT,
	  FIELD(transport) },
	{ .row = { "CORALE_NET_DEVICES", "list for UCX", "",
		   "Network devices that UCX may use; empty leaves the choice to it.", 0 },
	  .kind = SETTINGS_TEXT,
	  FIELD(net_devices) },
	{ .row = { "NCCL_IB_HCA", "NCCL's list: [^][=]name[:port],...", "",
		   "RDMA adapters that GPUs may use, where CORALE_NET_DEVICES is empty; empty: all with an "
		   "active port.",
		   0 },
	  .kind = SETTINGS_TEXT,
	  FIELD(ib_hca) },
	{ .row = { "CORALE_TOPO_FILE", "path of an hwloc XML", "",
		   "The PCI tree by which adapters are chosen for GPUs, in place of this machine's, for "
		   "virtual machines that show none.",
		   0 },
	  .kind = SETTINGS_TEXT,
	  FIELD(topo_file) },
	{ .row = { "CORALE_NET_RATES", "auto, built-in, or rates as corale-plan takes them", "auto",
		   "What messages between nodes cost, by which plans are chosen, as \"rail_us:2.4 "
		   "rail_send_us:6.5\"; auto measures "
		   "when the first communicator is made, unless ranks share cores; what is not given is "
		   "built-in.",
		   1 },
	  .kind = SETTINGS_TEXT,
	  FIELD(net_rates) },
	{ .row = { "CORALE_UCX_MESSAGE", "auto, put, tag, am", "auto",
		   "How UCX messages travel; auto measures when the communicator is made.", 1 },
	  .kind = SETTINGS_NAME,
	  FIELD(ucx_message),
	  .choices = ucx_messages },
	{ .row = { "CORALE_PINNED_MEMORY", "bytes", "64M",
		   "Pinned memory of a communicator for messages between GPUs of different nodes, at most.",
		   1 },
	  .kind = SETTINGS_SIZE,
	  FIELD(pinned_memory),
	  .min = 16 * MEBI,
	  .max = 4 * GIBI },
	{ .row = { "CORALE_RAILS", "1 to 8, 0: by the network and cores per rank", "0",
		   "Threads, and connections to each peer, that carry messages between GPUs of different "
		   "nodes.",
		   1 },
	  .kind = SETTINGS_INTEGER,
	  FIELD(rails),
	  .max = 8 },
	{ .row = { "CORALE_GPUDIRECT", "auto, yes, no", "auto",
		   "Messages between nodes go from and to the GPUs' memory (GPUDirect RDMA); auto: where a "
		   "test at creation finds that it works; yes: it is an error if it does not.",
		   1 },
	  .kind = SETTINGS_CHOICE,
	  FIELD(gpudirect),
	  .choices = references },
	{ .row = { "CORALE_GPUDIRECT_FLUSH", "auto, yes, no", "auto",
		   "The adapter reads a message's end back before a kernel hears of it; auto: where the GPU "
		   "needs that.",
		   1 },
	  .kind = SETTINGS_CHOICE,
	  FIELD(gpudirect_flush),
	  .choices = references },
	{ .row = { "CORALE_SPIN_US", "microseconds, -1: by cores per rank", "-1",
		   "How long a wait polls before it yields the processor.", 0 },
	  .kind = SETTINGS_DECIMAL,
	  FIELD(spin_us),
	  .max = 1000000,
	  .minus_one = 1 },
	{ .row = { "CORALE_NCCL_DEVICE", "auto, cuda, host", "auto",
		   "libnccl.so.2: buffers are GPU memory (cuda) or host memory (host, for tests without a "
		   "GPU).",
		   1 },
	  .kind = SETTINGS_CHOICE,
	  FIELD(nccl_device),
	  .choices = nccl_devices },
	{ .row = { "CORALE_NCCL_VERSION", "10000 x major + 100 x minor + patch", "22809",
		   "libnccl.so.2: the version of NCCL that ncclGetVersion returns.", 0 },
	  .kind = SETTINGS_INTEGER,
	  FIELD(nccl_version),
	  .min = 20000,
	  .max = 99999 },
	{ .row = { "CORALE_NCCL_TIMEOUT", "seconds, 0: never", "0",
		   "libnccl.so.2: how long a call waits for a peer before it fails, instead of "
		   "CORALE_TIMEOUT.",
		   1 },
	  .kind = SETTINGS_DECIMAL,
	  FIELD(nccl_timeout),
	  .max = 1000000000 },
	{ .row = { "CORALE_NCCL_INIT_TIMEOUT", "seconds, 0: never", "1800",
		   "libnccl.so.2: how long the creation of a communicator waits for ranks that have not "
		   "come.",
		   0 },
	  .kind = SETTINGS_DECIMAL,
	  FIELD(nccl_init_timeout),
	  .max = 1000000000 },
	{ .row = { "CORALE_NCCL_WINDOW", "bytes", "28M",
		   "libnccl.so.2: memory of a GPU that its peers map for a communicator, instead of "
		   "CORALE_GPU_WINDOW.",
		   1 },
	  .kind = SETTINGS_SIZE,
	  FIELD(nccl_window),
	  .min = 4 * MEBI,
	  .max = 4 * GIBI },
	{ .row = { "CORALE_NCCL_SCRATCH", "bytes, 0: none", "0",
		   "libnccl.so.2: memory of a GPU that each communicator takes beside its window, for copy "
		   "engines to store "
		   "into; calls of tens of MB and more are faster with 64M or more.",
		   1 },
	  .kind = SETTINGS_SIZE,
	  FIELD(nccl_scratch),
	  .min = 0,
	  .max = 64 * GIBI },
};

enum { ROWS = sizeof(fields) / sizeof(*fields) };
_Static_assert(ROWS <= 64, "from_environment and from_offer have one bit a row");

static const char prefix[] = "CORALE_";
extern char **environ;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct settings process_settings;
static int process_status;

/* What settings_offer was given, by row; read_process takes it over and frees it. */
static pthread_mutex_t offers_mutex = PTHREAD_MUTEX_INITIALIZER;
static char *offers[ROWS];
static int offers_closed;

int settings_count(void)
{
	return ROWS;
}

const struct settings_row *settings_row(int i)
{
	return i >= 0 && i < ROWS ? &fields[i].row : NULL;
}

enum settings_origin settings_value(const struct settings *s, int i, char *buf, size_t bytes)
{
	settings_print(&fields[i], (const char *)s + fields[i].offset, buf, bytes);
	if (s->from_environment >> i & 1)
		return SETTINGS_ENVIRONMENT;
	return s->from_offer >> i & 1 ? SETTINGS_OFFER : SETTINGS_DEFAULT;
}

/* The last entry wins, as with a shell that sets a name twice; NULL if unset or empty. */
static const char *look_up(char *const *environment, const char *name)
{
	const char *value = NULL;
	size_t length = strlen(name);

	for (; environment && *environment; environment++)
		if (!strncmp(*environment, name, length) && (*environment)[length] == '=')
			value = *environment + length + 1;
	return value && *value ? value : NULL;
}

int settings_parse(char *const *environment, struct settings *out)
{
	struct settings s;
	int ret = 0;

	memset(&s, 0, sizeof(s));
	for (int i = 0; i < ROWS; i++) {
		const struct settings_field *field = &fields[i];
		const char *value = look_up(environment, field->row.name);
		char accepted[160];
		if (value)
			s.from_environment |= UINT64_C(1) << i;
		if (!settings_read(field, value ? value : field->row.fallback, (char *)&s + field->offset))
			continue;
		settings_accepted(field, accepted, sizeof(accepted));
		ret = log_error(CORALE_ESETTING, -1, "%s=%s is malformed: expected %s; correct or unset it",
				field->row.name, value, accepted);
	}
	if (!ret)
		*out = s;
	return ret;
}

int settings_next_unknown(char *const *environment, size_t *position, char name[64], const char **nearest)
{
	for (; environment && environment[*position]; ++*position) {
		const char *entry = environment[*position];
		size_t length = strcspn(entry, "=");
		int known = strncmp(entry, prefix, sizeof(prefix) - 1) != 0;
		for (int i = 0; !known && i < ROWS; i++)
			known = strlen(fields[i].row.name) == length &&
				!strncmp(entry, fields[i].row.name, length);
		if (known)
			continue;
		length = length < 63 ? length : 63;
		memcpy(name, entry, length);
		name[length] = '\0';
		*nearest = settings_nearest(fields, ROWS, name, sizeof(prefix) - 1);
		++*position;
		return 1;
	}
	return 0;
}

char *const *settings_environment(void)
{
	static char *const none[] = { NULL };

	return getauxval(AT_SECURE) ? none : environ;
}

static int find_row(const char *name)
{
	for (int i = 0; i < ROWS; i++)
		if (!strcmp(fields[i].row.name, name))
			return i;
	return -1;
}

int settings_offer(const char *name, const char *value)
{
	struct settings probe;
	int i = find_row(name), late;
	char *copy = i < 0 ? NULL : strdup(value);

	if (!copy)
		return i < 0 ? CORALE_EINVAL : CORALE_ENOMEM;
	pthread_mutex_lock(&offers_mutex);
	late = offers_closed;
	if (!late) {
		free(offers[i]);
		offers[i] = copy;
	}
	pthread_mutex_unlock(&offers_mutex);
	if (late)
		free(copy);
	if (late || !value[0])
		return late ? CORALE_ECOMM : 0;
	return settings_read(&fields[i], value, (char *)&probe + fields[i].offset);
}

/* Values of offers into the rows of s that the environment does not set; refused: one bit for each malformed offer. */
static void take_offers(struct settings *s, uint64_t *refused)
{
	for (int i = 0; i < ROWS; i++) {
		if (!offers[i] || !offers[i][0] || s->from_environment >> i & 1)
			continue;
		if (settings_read(&fields[i], offers[i], (char *)s + fields[i].offset))
			*refused |= UINT64_C(1) << i;
		else
			s->from_offer |= UINT64_C(1) << i;
	}
}

static void report_refused(uint64_t refused)
{
	char accepted[160];

	for (int i = 0; i < ROWS; i++) {
		if (!(refused >> i & 1))
			continue;
		settings_accepted(&fields[i], accepted, sizeof(accepted));
		log_line(LOG_INFO, -1, "the value %s for %s is malformed and is not used: expected %s",
			 offers[i], fields[i].row.name, accepted);
	}
}

static void free_offers(void)
{
	for (int i = 0; i < ROWS; i++) {
		free(offers[i]);
		offers[i] = NULL;
	}
}

static void read_process(void)
{
	char *const *environment = settings_environment();
	size_t position = 0;
	char name[64];
	const char *nearest;
	uint64_t refused = 0;

	pthread_mutex_lock(&offers_mutex);
	offers_closed = 1;
	pthread_mutex_unlock(&offers_mutex);
	process_status = settings_parse(environment, &process_settings);
	if (process_status) {
		free_offers();
		return;
	}
	take_offers(&process_settings, &refused);
	log_open((enum log_level)process_settings.debug, process_settings.log_file);
	report_refused(refused);
	free_offers();
	while (settings_next_unknown(environment, &position, name, &nearest))
		log_line(LOG_WARN, -1, "%s is not a setting of this version and is ignored%s%s%s", name,
			 nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

int settings_get(const struct settings **out)
{
	pthread_once(&once, read_process);
	if (!process_status)
		*out = &process_settings;
	return process_status;
}
