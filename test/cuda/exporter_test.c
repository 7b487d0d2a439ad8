/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports of processes (lib/cuda/exporter.h), by a driver and runtime that the test makes up: participants are told apart by their context and by
 * the number that process_number gives; some are real processes. Addresses are numbers that nobody reads; what kernels would read, tables, is memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "test/helpers/fake_driver.h"
#include "cuda/exporter_state.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/process.h"
#include "base/wait.h"

enum { PROCESSES = 4, ALLOCATIONS = 4096, MEBI = 1 << 20, DEADLINE_S = 5 };

/* ---- The driver ---- */

/* PIECE: of cuMemCreate, with descriptors; each fills its 2 MiB where it has as many. */
enum kind { GPU, NOT_LEGACY, OTHER, PIECE };

struct allocation {
	_Atomic uint64_t id; /* 0: free */
	_Atomic enum kind kind;
	_Atomic size_t bytes;
	_Atomic int opens[PROCESSES];
};

/* Addresses that a process has reserved, and what it has mapped there. */
struct mapping {
	CUdeviceptr at;
	size_t bytes;
	int process, index, reads, writes;
	uint64_t id;
};

static struct allocation allocations[ALLOCATIONS];
static struct mapping mappings[ALLOCATIONS];
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;
static const CUdeviceptr reserved_from = (CUdeviceptr)1 << 50;
static _Atomic CUdeviceptr next_reserved = (CUdeviceptr)1 << 50;
static _Atomic int handles, reservations, no_read_only, exports_fail;
static void (*_Atomic before_export)(void);
static _Atomic uint64_t last_id;
static _Atomic int fails_in[PROCESSES], open_us[PROCESSES], close_waits[PROCESSES], waiting[PROCESSES];
static int gpu_of[PROCESSES];
static CUresult peer_error;
static _Atomic int copies_fail, slow_copies, opens, closes;
static void (*_Atomic after_copy)(void);
static pthread_rwlock_t
    kernels[PROCESSES]; /* held for reading by kernels, for writing by what waits for them */
static _Atomic uint64_t process_is = 100;
static uint64_t first_process; /* another one in each run of the test: sockets have names by it */

uint64_t __wrap_process_number(void);
uint64_t __wrap_process_number(void)
{
	return first_process + process_is;
}

static int process_of(CUcontext context)
{
	return (int)((uintptr_t)context - 1) % PROCESSES;
}

static CUdeviceptr address(int i)
{
	return ((CUdeviceptr)1 << 40) + (CUdeviceptr)i * 2 * MEBI;
}

/* Where a process maps it. */
static CUdeviceptr mapped(int process, int i)
{
	return address(i) + ((CUdeviceptr)(process + 2) << 44);
}

static int index_of(CUdeviceptr at)
{
	return (int)((at & (((CUdeviceptr)1 << 40) - 1)) / (2 * MEBI));
}

static struct allocation *allocation_of(CUdeviceptr at)
{
	return &allocations[index_of(at)];
}

static int allocate(int i, enum kind kind, size_t bytes)
{
	allocations[i].kind = kind;
	allocations[i].bytes = bytes;
	allocations[i].id = ++last_id;
	return i;
}

static void release(int process, int i)
{
	pthread_rwlock_wrlock(&kernels[process]);
	allocations[i].id = 0;
	pthread_rwlock_unlock(&kernels[process]);
}

static CUresult enable_peer(CUcontext context, unsigned flags)
{
	assert_true(context && context != fake_context);
	return peer_error;
}

static CUresult attribute(void *value, int which, CUdeviceptr at)
{
	fake_call();
	struct allocation *a = allocation_of(at);
	const int in_piece = a->kind != PIECE || at - address(index_of(at)) < a->bytes;
	const uint64_t id = in_piece ? a->id : 0;
	switch (which) {
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)value = id;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)value =
		    address(a->kind == PIECE ? 0 : index_of(at)); /* all reserved addresses */
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)value = !id ? 0 : a->kind == PIECE ? (size_t)ALLOCATIONS * 2 * MEBI : a->bytes;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(int *)value = a->kind == PIECE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)value = a->kind == OTHER;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(int *)value = a->kind == GPU;
		break;
	default:
		abort();
	}
	return CUDA_SUCCESS;
}

static CUresult attributes(unsigned n, CUpointer_attribute *which, void **values, CUdeviceptr at)
{
	for (unsigned i = 0; i < n; i++)
		attribute(values[i], which[i], at);
	return CUDA_SUCCESS;
}

/* Under mappings_lock. */
static struct mapping *mapping_at(CUdeviceptr at)
{
	for (int i = 0; i < ALLOCATIONS; i++)
		if (mappings[i].bytes && at - mappings[i].at < mappings[i].bytes)
			return &mappings[i];
	return NULL;
}

static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
	pthread_mutex_lock(&mappings_lock);
	const struct mapping *m = mapping_at(at);
	*base = m ? m->at : address(index_of(at));
	*bytes = m ? m->bytes : allocation_of(at)->bytes;
	pthread_mutex_unlock(&mappings_lock);
	return CUDA_SUCCESS;
}

/* A handle is an allocation's id. */
static CUresult retain(CUmemGenericAllocationHandle *handle, void *memory)
{
	struct allocation *a = allocation_of((CUdeviceptr)memory);
	fake_call();
	*handle = a->id;
	if (a->kind != PIECE || !a->id)
		return 1;
	handles++;
	return CUDA_SUCCESS;
}

static CUresult release_handle(CUmemGenericAllocationHandle handle)
{
	handles--;
	return CUDA_SUCCESS;
}

static CUresult export_handle(void *out, CUmemGenericAllocationHandle handle, int kind, uint64_t flags)
{
	const int fd = exports_fail ? -1 : memfd_create("piece", 0);
	if (before_export)
		(*before_export)();
	if (fd < 0)
		return 1;
	assert_int_equal(write(fd, &handle, sizeof handle), sizeof handle);
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

static CUresult import_handle(CUmemGenericAllocationHandle *handle, void *from, int kind)
{
	assert_int_equal(kind, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	fake_call();
	usleep((unsigned)open_us[process_of(fake_context)]);
	if (fails_in[process_of(fake_context)] ||
	    pread((int)(uintptr_t)from, handle, sizeof *handle, 0) != sizeof *handle)
		return 1;
	handles++;
	return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr wanted, uint64_t flags)
{
	if (bytes > (size_t)ALLOCATIONS * 2 * MEBI)
		return 1;
	*at = atomic_fetch_add(&next_reserved, (bytes / (2 * MEBI) + 2) * 2 * MEBI);
	reservations++;
	return CUDA_SUCCESS;
}

static CUresult unreserve(CUdeviceptr at, size_t bytes)
{
	pthread_mutex_lock(&mappings_lock);
	for (int i = 0; i < ALLOCATIONS; i++)
		assert_false(mappings[i].bytes && mappings[i].at - at < bytes);
	pthread_mutex_unlock(&mappings_lock);
	reservations--;
	return CUDA_SUCCESS;
}

/* Memory that its owner has freed is there as long as a handle is. */
static CUresult map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		    uint64_t flags)
{
	int i = 0, k = 0;
	pthread_mutex_lock(&mappings_lock);
	assert_null(mapping_at(at));
	while (i < ALLOCATIONS && mappings[i].bytes)
		i++;
	while (k < ALLOCATIONS && allocations[k].id != handle)
		k++;
	assert_true(i < ALLOCATIONS);
	if (k < ALLOCATIONS)
		assert_int_equal(bytes, allocations[k].bytes);
	mappings[i] = (struct mapping){
		.at = at, .bytes = bytes, .process = process_of(fake_context), .index = k, .id = handle
	};
	pthread_mutex_unlock(&mappings_lock);
	opens++;
	return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
	const int writes = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	assert_int_equal(access->location.id, gpu_of[process_of(fake_context)]);
	if (no_read_only && !writes)
		return 801;
	pthread_mutex_lock(&mappings_lock);
	for (struct mapping *m; bytes; bytes -= m->bytes, at += m->bytes) {
		assert_non_null(m = mapping_at(at));
		m->reads = 1;
		m->writes = writes;
	}
	pthread_mutex_unlock(&mappings_lock);
	return CUDA_SUCCESS;
}

/* Does not wait for kernels. */
static CUresult unmap(CUdeviceptr at, size_t bytes)
{
	const int process = process_of(fake_context);
	waiting[process]++;
	while (close_waits[process])
		usleep(1000);
	waiting[process]--;
	pthread_mutex_lock(&mappings_lock);
	struct mapping *m = mapping_at(at);
	assert_true(m && m->at == at && m->bytes == bytes && m->process == process);
	m->bytes = 0;
	pthread_mutex_unlock(&mappings_lock);
	closes++;
	return CUDA_SUCCESS;
}

static const struct cuda_driver driver = { .current_context = fake_current_context,
					   .push_context = fake_push_context,
					   .pop_context = fake_pop_context,
					   .enable_peer = enable_peer,
					   .pointer_attribute = attribute,
					   .pointer_attributes = attributes,
					   .address_range = address_range,
					   .retain = retain,
					   .release = release_handle,
					   .export_handle = export_handle,
					   .import_handle = import_handle,
					   .reserve = reserve,
					   .unreserve = unreserve,
					   .map = map,
					   .unmap = unmap,
					   .set_access = set_access };

/* What a thread calls that a capture in the mode of the start would end. */
static void needs_relaxed(void)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	fake_call();
	cudaThreadExchangeStreamCaptureMode(&mode);
	assert_int_equal(mode, cudaStreamCaptureModeRelaxed);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
	const int i = index_of((CUdeviceptr)memory);
	needs_relaxed();
	const uint64_t words[2] = { (uint64_t)i, allocations[i].id };
	assert_non_null(fake_context);
	memset(handle, 0, sizeof *handle);
	memcpy(handle, words, sizeof words);
	return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
	const int process = process_of(fake_context);
	uint64_t words[2];
	needs_relaxed();
	memcpy(words, &handle, sizeof words);
	usleep((unsigned)open_us[process]);
	if (fails_in[process] || words[0] >= ALLOCATIONS ||
	    (allocations[words[0]].id != words[1] && allocations[words[0]].kind == GPU))
		return 1;
	*memory = (void *)mapped(process, (int)words[0]);
	allocations[words[0]].opens[process]++;
	opens++;
	return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
	const int process = process_of(fake_context);
	needs_relaxed();
	waiting[process]++;
	while (close_waits[process])
		usleep(1000);
	waiting[process]--;
	pthread_rwlock_wrlock(&kernels[process]);
	allocation_of((CUdeviceptr)memory)->opens[process]--;
	pthread_rwlock_unlock(&kernels[process]);
	closes++;
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
	assert_int_equal(flags, cudaStreamNonBlocking);
	*stream = (cudaStream_t)1;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	fake_call();
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	needs_relaxed();
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
	needs_relaxed();
	assert_int_equal(kind, cudaMemcpyHostToDevice);
	if (copies_fail)
		return 1;
	if (slow_copies)
		usleep(rand() % 200);
	for (size_t i = 0; i < bytes / 8; i++)
		atomic_store((_Atomic uint64_t *)to + i, ((const uint64_t *)from)[i]);
	if (after_copy)
		(*after_copy)();
	return cudaSuccess;
}

/* ---- Participants ---- */

static _Atomic int infos, errors;
static int cases; /* so far: each has exporters of its own */

static void count_line(enum log_level level, int rank, const char *text)
{
	infos += level == LOG_INFO;
	errors += level == LOG_ERROR;
	if (getenv("EXPORTER_TEST_LOG"))
		fprintf(stderr, "# %s\n", text);
}

static struct exporter *begin(int process)
{
	struct exporter *x = NULL;
	fake_context = (CUcontext)(uintptr_t)(PROCESSES * cases + process + 1);
	process_is = 100 + (uint64_t)process;
	struct cuda_driver passing = driver; /* its engine may end before the exporter */
	assert_int_equal(exporter_open(&passing, 0, process, &x), 0);
	memset(&passing, 0, sizeof passing);
	return x;
}

static const struct exports *attach(struct exporter *x, const struct exporter *peer)
{
	const struct exports *table = NULL;
	assert_int_equal(exporter_attach(x, exporter_fd(peer), &table), 0);
	assert_non_null(table);
	exporter_own(x); /* a large call */
	return table;
}

static struct export_ref find(struct exporter *x, int i)
{
	return exporter_find(x, (void *)(address(i) + 256), 1024, 0);
}

/* Published, by three calls. */
static uint64_t export(struct exporter *x, int i)
{
	assert_int_equal(find(x, i).number, 0);
	assert_int_equal(find(x, i).number, 0);
	const struct export_ref ref = find(x, i);
	assert_int_equal(ref.offset, ref.number ? 256 : 0);
	return ref.number;
}

static uint64_t load(const void *word)
{
	return atomic_load((const _Atomic uint64_t *)word);
}

static uint64_t usable(struct exporter *x, uint64_t number)
{
	return load(&x->tables->own.usable[number % EXPORTS_ROOM]);
}

static enum export_state state_of(struct exporter *x, uint64_t number)
{
	pthread_mutex_lock(&x->lock);
	const enum export_state state = x->own[number % EXPORTS_ROOM].state;
	pthread_mutex_unlock(&x->lock);
	return state;
}

static uint64_t at(const struct exports *table, uint64_t number)
{
	return load(&table->at[number % EXPORTS_ROOM]);
}

#define await(condition)                                                                                     \
	for (int64_t until = wait_now_ns() + DEADLINE_S * INT64_C(1000000000); !(condition);) {              \
		if (wait_now_ns() > until)                                                                   \
			fail_msg("waited in vain for %s", #condition);                                       \
		usleep(200);                                                                                 \
	}

static int prepare(void **state)
{
	memset(allocations, 0, sizeof allocations);
	cases++;
	infos = errors = opens = closes = 0;
	no_read_only = exports_fail = 0;
	before_export = NULL;
	for (int i = 0; i < PROCESSES; i++)
		fails_in[i] = open_us[i] = close_waits[i] = gpu_of[i] = 0;
	return 0;
}

/* Two that have each other attached. */
struct pair {
	struct exporter *x, *y;
	const struct exports *of_y, *of_x; /* at x, at y */
};

static struct pair make_pair(void)
{
	struct pair p = { .x = begin(0), .y = begin(1) };
	p.of_y = attach(p.x, p.y);
	p.of_x = attach(p.y, p.x);
	return p;
}

static void end_pair(const struct pair *p)
{
	exporter_detach(p->x, p->of_y);
	exporter_detach(p->y, p->of_x);
	exporter_close(p->x);
	exporter_close(p->y);
	await(opens == closes && !reservations); /* exporter_close does not wait for long */
	assert_int_equal(handles, 0);
	assert_int_equal(errors, 0);
}

static uint64_t export_open(const struct pair *p, int i)
{
	exporter_own(p->y); /* its rank makes the calls, too */
	const uint64_t number = export(p->x, i);
	assert_true(number);
	await(usable(p->x, number) == number && load(&p->of_x->opened) >= number);
	assert_int_equal(at(p->of_x, number), mapped(1, i));
	return number;
}

/* ---- Processes: first, before this one has threads ---- */

static int descriptor_of(pid_t child, int fd)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)child, fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* A child with an exporter that has x attached; from then on it closes nothing. */
static pid_t start_child(struct exporter *x, int *fd)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		struct exporter *y = begin(3);
		attach(y, x);
		close_waits[3] = 1;
		if (write(ends[1], &y->fd, sizeof y->fd) != sizeof y->fd)
			_exit(1);
		for (int i = 0; i < DEADLINE_S; i++)
			sleep(1);
		_exit(0);
	}
	int theirs = -1;
	assert_int_equal(read(ends[0], &theirs, sizeof theirs), sizeof theirs);
	close(ends[0]);
	close(ends[1]);
	*fd = descriptor_of(child, theirs);
	assert_true(*fd >= 0);
	return child;
}

static void say_driver_gone(void)
{
	fake_is_gone = 1;
	usleep(50000);
}

/* exit() while opens and a close are under way. */
static void exit_busy(int close_hangs)
{
	atexit(say_driver_gone); /* comes after the exporter's */
	struct pair p = make_pair();
	const uint64_t number = export_open(&p, allocate(0, GPU, MEBI));
	open_us[1] = 3000;
	for (int i = 1; i < 300; i++)
		export(p.x, allocate(i, i % 2 ? GPU : PIECE, MEBI));
	await(load(&p.of_x->opened) > number + 3);
	close_waits[1] = close_hangs;
	release(0, 0);
	await(!close_hangs || waiting[1]);
	exit(0);
}

/* Of a process that has used them. */
static void fork_busy(void)
{
	int status = 0;
	process_started();
	struct pair p = make_pair();
	export_open(&p, allocate(1, GPU, MEBI));
	const pid_t child = fork();
	if (!child) {
		fake_is_gone = 1;
		exporter_detach(p.y, p.of_x);
		exporter_close(p.y);
		exporter_close(p.x);
		if (p.x->users != 1 || p.y->users != 1)
			_exit(1);
		exit(0);
	}
	waitpid(child, &status, 0);
	export_open(&p, allocate(2, GPU, MEBI));
	end_pair(&p);
	exit(status != 0);
}

static void in_child(void (*run)(int arg), int arg)
{
	int status;
	const int64_t start = wait_now_ns();
	const pid_t child = fork();
	if (!child) {
		alarm(2 * DEADLINE_S);
		run(arg);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(wait_now_ns() - start < DEADLINE_S * INT64_C(1000000000));
}

static void run_fork(int unused)
{
	fork_busy();
}

UNIT_TEST_WITH(test_exit, prepare, NULL)
{
	in_child(exit_busy, 0);
	in_child(exit_busy, 1);
	in_child(run_fork, 0);
}

UNIT_TEST_WITH(test_killed, prepare, NULL)
{
	int fd, status;
	struct exporter *x = begin(0);
	const struct exports *of_y;
	/* the driver of the child knows this one, too */
	allocate(1, GPU, MEBI);
	allocate(2, GPU, MEBI);
	const pid_t child = start_child(x, &fd);
	assert_int_equal(exporter_attach(x, fd, &of_y), 0);
	const uint64_t number = export(x, 1);
	await(usable(x, number) == number); /* the child has answered */
	release(0, 1);
	await(state_of(x, 1) == EXPORT_DEAD);
	usleep(100000);
	assert_int_equal(state_of(x, 1), EXPORT_DEAD);
	kill(child, SIGSTOP);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	const uint64_t next = export(x, 2);
	usleep(20000);
	assert_int_equal(usable(x, next), 0);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	await(state_of(x, 1) == EXPORT_FREE && usable(x, next) == next);
	exporter_detach(x, of_y);
	exporter_close(x);
	close(fd);
}

/* ---- Cases ---- */

UNIT_TEST_WITH(test_open, prepare, NULL)
{
	struct pair p = make_pair();
	const struct exports *own = attach(p.x, p.x);
	assert_true(exporter_bytes(p.x) >= sizeof(struct exports_own));
	for (int i = 1; i <= 20; i++) {
		const uint64_t number = export_open(&p, allocate(i, GPU, MEBI));
		assert_int_equal(number, i);
		assert_int_equal(at(own, number), address(i));
		assert_int_equal(find(p.x, i).number, number);
	}
	assert_int_equal(load(&own->opened), UINT64_MAX);
	assert_int_equal(load(&p.of_y->opened), 0);
	allocate(21, GPU, MEBI);
	assert_int_equal(exporter_find(p.x, (void *)address(21), MEBI, 1).number, 21);
	assert_int_equal(exporter_find(p.x, (void *)(address(20) + MEBI - 8), 8, 0).offset, MEBI - 8);
	await(load(&p.of_x->opened) == 21);
	assert_int_equal(infos, 0);
	exporter_detach(p.x, own);
	end_pair(&p);
}

/* Memory that is registered is published at once, and stays so whatever else is used. */
UNIT_TEST_WITH(test_registered, prepare, NULL)
{
	struct pair p = make_pair();
	const uint64_t number = exporter_find(p.x, (void *)address(allocate(1, GPU, MEBI)), 1024, 1).number;
	await(usable(p.x, number) == number && load(&p.of_x->opened) >= number);
	assert_int_equal(infos, 0);
	for (int i = 2; i < ALLOCATIONS; i++)
		find(p.x, allocate(i, GPU, MEBI));
	assert_int_equal(find(p.x, 1).number, number);
	assert_int_equal(usable(p.x, number), number);
	end_pair(&p);
}

UNIT_TEST_WITH(test_counted, prepare, NULL)
{
	struct pair p = make_pair();
	assert_ptr_equal(begin(0), p.x);
	assert_ptr_equal(attach(p.x, p.y), p.of_y);
	assert_ptr_equal(attach(p.y, p.x), p.of_x);
	export_open(&p, allocate(1, GPU, MEBI));
	exporter_detach(p.x, p.of_y);
	exporter_detach(p.y, p.of_x);
	exporter_close(p.x);
	export_open(&p, allocate(2, GPU, MEBI));
	assert_int_equal(closes, 0);
	/* the last one closes; the process attaches again at once, as another communicator does */
	exporter_detach(p.y, p.of_x);
	p.of_x = attach(p.y, p.x);
	await(load(&p.of_x->opened) == 2 && closes == 2);
	assert_int_equal(at(p.of_x, 2), mapped(1, 2));
	/* the same while the first closes wait */
	close_waits[1] = 1;
	exporter_detach(p.y, p.of_x);
	p.of_x = attach(p.y, p.x);
	export_open(&p, allocate(3, GPU, MEBI));
	assert_int_equal(closes, 2);
	close_waits[1] = 0;
	end_pair(&p);
}

UNIT_TEST_WITH(test_refused, prepare, NULL)
{
	struct pair p = make_pair();
	for (enum kind kind = NOT_LEGACY; kind <= OTHER; kind++)
		for (int i = 0; i < 3; i++) {
			assert_int_equal(export(p.x, allocate(3 * (int)kind + i, kind, MEBI)), 0);
			assert_int_equal(infos, kind - GPU);
		}
	const int before = infos;
	assert_int_equal(find(p.x, 100).number, 0); /* unknown to the driver */
	assert_int_equal(find(p.x, 100).number, 0);
	assert_int_equal(infos, before + 1);
	allocate(50, GPU, MEBI);
	for (int i = 0; i < 4; i++)
		assert_int_equal(exporter_find(p.x, (void *)(address(50) + 1), MEBI, 1).number, 0);
	assert_int_equal(infos, before + 2);
	assert_int_equal(exporter_find(p.x, (void *)address(50), SIZE_MAX, 1).number, 0);
	export_open(&p, 50);
	end_pair(&p);
}

/* After each copy: what a kernel may name has an address. */
static const struct exports_own *_Atomic watched_own;
static const struct exports *_Atomic watched;
static _Atomic int looks;

static void look_at_tables(void)
{
	for (uint64_t number = 1; number <= 32 && number <= load(&watched->opened); number++)
		if (load(&watched_own->usable[number]) == number) {
			assert_true(at(watched, number));
			looks++;
		}
}

UNIT_TEST_WITH(test_order, prepare, NULL)
{
	struct pair p = make_pair();
	watched_own = exporter_own(p.x);
	watched = attach(p.x, p.x);
	after_copy = look_at_tables;
	for (int i = 1; i <= 20; i++)
		export_open(&p, allocate(i, GPU, MEBI));
	assert_true(looks > 20);
	/* one that comes when all is usable */
	after_copy = NULL;
	struct exporter *z = begin(2);
	watched = &z->tables->peers[0];
	after_copy = look_at_tables;
	assert_ptr_equal(attach(z, p.x), watched);
	looks = 0;
	await(load(&watched->opened) == 20);
	assert_true(looks > 20);
	after_copy = NULL;
	exporter_close(z);
	end_pair(&p);
}

/* It is named when it is open everywhere, and not before; finding waits for nothing. */
UNIT_TEST_WITH(test_late, prepare, NULL)
{
	struct pair p = make_pair();
	open_us[1] = 200000;
	const uint64_t number = export(p.x, allocate(1, GPU, MEBI));
	const int64_t start = wait_now_ns();
	for (int i = 0; i < 1000; i++)
		assert_int_equal(find(p.x, 1).number, number);
	while (wait_now_ns() - start < 100000000) {
		assert_int_equal(usable(p.x, number), 0);
		assert_int_equal(load(&p.of_x->opened), 0);
		usleep(1000);
	}
	await(usable(p.x, number) == number);
	assert_int_equal(load(&p.of_x->opened), number);
	end_pair(&p);
}

UNIT_TEST_WITH(test_failed, prepare, NULL)
{
	struct pair p = make_pair();
	fails_in[1] = 1;
	const uint64_t number = export(p.x, allocate(1, GPU, MEBI));
	await(!find(p.x, 1).number);
	assert_int_equal(usable(p.x, number), 0);
	await(load(&p.of_x->opened) == number); /* it is dead */
	assert_int_equal(at(p.of_x, number), 0);
	fails_in[1] = 0;
	for (int i = 0; i < 5; i++)
		assert_int_equal(find(p.x, 1).number, 0);
	assert_int_equal(infos, 1);
	export_open(&p, allocate(2, GPU, MEBI));
	end_pair(&p);
}

/* One that came when it was in use already: `opened` does not pass it there, and the others go on, until the program frees it. */
UNIT_TEST_WITH(test_failed_later, prepare, NULL)
{
	struct pair p = make_pair();
	const uint64_t number = export_open(&p, allocate(1, GPU, MEBI));
	struct exporter *z = begin(2);
	fails_in[2] = 1;
	const struct exports *of_x = attach(z, p.x), *of_z = attach(p.x, z);
	await(infos == 1);
	fails_in[2] = 0;
	const uint64_t next = export_open(&p, allocate(2, GPU, MEBI)); /* usable: z has opened it */
	usleep(100000);
	assert_int_equal(load(&of_x->opened), number - 1);
	assert_int_equal(at(of_x, next), mapped(2, 2));
	assert_int_equal(usable(p.x, number), number);
	release(0, 1);
	await(load(&of_x->opened) == next);
	assert_int_equal(usable(p.x, number), 0);
	exporter_detach(z, of_x);
	exporter_detach(p.x, of_z);
	exporter_close(z);
	end_pair(&p);
}

UNIT_TEST_WITH(test_freed, prepare, NULL)
{
	struct pair p = make_pair();
	for (int round = 0; round < 5; round++) {
		const uint64_t number = export_open(&p, allocate(1, GPU, MEBI));
		const int64_t start = wait_now_ns();
		release(0, 1);
		if (round % 2) { /* at the same address at once */
			allocate(1, GPU, 2 * MEBI);
			assert_int_equal(find(p.x, 1).number, 0);
		}
		await(!allocations[1].opens[1]);
		assert_int_equal(usable(p.x, number), 0);
		assert_int_equal(at(p.of_x, number), 0);
		if (wait_now_ns() - start > 300000000)
			print_message("# closed after %d ms\n", (int)((wait_now_ns() - start) / 1000000));
		allocations[1].id = 0;
	}
	end_pair(&p);
}

/* While a close waits: an index is not used again before it is closed, and all else goes on. */
UNIT_TEST_WITH(test_close_waits, prepare, NULL)
{
	struct pair p = make_pair();
	const uint64_t number = export_open(&p, allocate(0, GPU, MEBI));
	close_waits[1] = 1;
	release(0, 0);
	await(waiting[1]);
	assert_int_equal(usable(p.x, number), 0);
	assert_int_equal(at(p.of_x, number), 0);
	for (int i = 1; i <= 1000; i++)
		export_open(&p, allocate(i, GPU, MEBI));
	for (int i = 1; i <= 1000; i += 8)
		release(0, i);
	usleep(120000);
	assert_int_equal(state_of(p.x, number), EXPORT_DEAD);
	for (int i = 1001; i < EXPORTS_ROOM; i++)
		export_open(&p, allocate(i, GPU, MEBI));
	assert_int_equal(export(p.x, allocate(2000, GPU, MEBI)), 0); /* no index */
	struct exporter *z = begin(2); /* comes when it is dead already */
	attach(p.x, z);
	attach(z, p.x);
	close_waits[1] = 0;
	await(state_of(p.x, number) == EXPORT_FREE);
	exporter_close(z);
	assert_int_equal(find(p.x, 2000).number, number + EXPORTS_ROOM);
	end_pair(&p);
}

UNIT_TEST_WITH(test_full, prepare, NULL)
{
	struct pair p = make_pair();
	for (int i = 0; i < EXPORTS_ROOM; i++)
		assert_int_equal(export(p.x, allocate(i, GPU, MEBI)), i + 1);
	assert_int_equal(export(p.x, allocate(2000, GPU, MEBI)), 0);
	await(usable(p.x, EXPORTS_ROOM) == EXPORTS_ROOM);
	release(0, 5); /* number 6: those before have live indexes */
	await(find(p.x, 2000).number == EXPORTS_ROOM + 6);
	await(load(&p.of_x->opened) == EXPORTS_ROOM + 6 && usable(p.x, 6) == EXPORTS_ROOM + 6);
	assert_int_equal(at(p.of_x, 6), mapped(1, 2000));
	assert_int_equal(at(p.of_x, 5), mapped(1, 4));
	struct exporter *z = begin(2); /* it has seen none of that */
	const struct exports *of_x = attach(z, p.x);
	await(load(&of_x->opened) == EXPORTS_ROOM + 6);
	assert_int_equal(at(of_x, 6), mapped(2, 2000));
	exporter_close(z);
	end_pair(&p);
}

static int rests(void *arg)
{
	return *(_Atomic int *)arg;
}

/* Closes wait for calls, and calls can see closes; opening goes on. */
UNIT_TEST_WITH(test_calls, prepare, NULL)
{
	static _Atomic int rest[2] = { 0, 1 };
	static struct exporter_user users[] = { { rests, &rest[0], NULL }, { rests, &rest[1], NULL } };
	struct pair p = make_pair();
	exporter_add_user(p.y, &users[0]);
	exporter_add_user(p.y, &users[1]);
	const uint64_t number = export_open(&p, allocate(1, GPU, MEBI));
	release(0, 1);
	await(!at(p.of_x, number));
	export_open(&p, allocate(2, GPU, MEBI));
	usleep(50000);
	assert_int_equal(closes, 0);
	assert_int_equal(state_of(p.x, number), EXPORT_DEAD);
	close_waits[1] = 1;
	rest[0] = 1;
	await(waiting[1]);
	assert_true(exporter_closes(p.y));
	assert_false(exporter_closes(p.x));
	close_waits[1] = 0;
	await(closes == 1 && !exporter_closes(p.y));
	exporter_remove_user(p.y, &users[0]);
	exporter_remove_user(p.y, &users[1]);
	end_pair(&p);
}

/* A peer that is taken for gone, as its driver takes long, comes back: it closes what it has at an index before it opens what is there now. */
UNIT_TEST_WITH(test_slow_driver, prepare, NULL)
{
	struct pair p = make_pair();
	const uint64_t number = export_open(&p, allocate(1, GPU, MEBI));
	close_waits[1] = 1;
	release(0, 1);
	await(waiting[1]);
	open_us[1] = 3000000;
	export(p.x, allocate(2, GPU, MEBI));
	await(state_of(p.x, number) == EXPORT_FREE);
	pthread_mutex_lock(&p.x->lock);
	p.x->last_number = number + EXPORTS_ROOM - 1;
	pthread_mutex_unlock(&p.x->lock);
	assert_int_equal(export(p.x, allocate(3, GPU, MEBI)), number + EXPORTS_ROOM);
	open_us[1] = 0;
	await(load(&p.of_x->opened) == number + 1);
	usleep(100000);
	assert_int_equal(opens, 2);
	assert_int_equal(at(p.of_x, number), 0);
	close_waits[1] = 0;
	await(at(p.of_x, number) == mapped(1, 3));
	end_pair(&p);
}

static int sleeps(const struct exporter *x)
{
	const uint64_t before = x->board->looks;
	usleep(200000);
	return x->sleeps && x->board->looks == before;
}

/* Until a large call is made, after the last mapping, and not where calls were captured; peers don't wait for a process that sleeps. */
UNIT_TEST_WITH(test_sleep, prepare, NULL)
{
	struct pair p = { .x = begin(0), .y = begin(1) };
	assert_int_equal(exporter_attach(p.x, exporter_fd(p.y), &p.of_y), 0);
	assert_int_equal(exporter_attach(p.y, exporter_fd(p.x), &p.of_x), 0);
	await(sleeps(p.x) && sleeps(p.y));
	const uint64_t number = export(p.x, allocate(1, GPU, MEBI));
	await(usable(p.x, number) == number);
	assert_int_equal(load(&p.of_x->opened), 0);
	exporter_own(p.y);
	await(load(&p.of_x->opened) == number);
	exporter_note_capture(p.x);
	exporter_own(p.x);
	usleep(2200000);
	assert_false(sleeps(p.y));
	release(0, 1);
	await(sleeps(p.y));
	assert_int_equal(closes, 1);
	assert_false(sleeps(p.x));
	export_open(&p, allocate(2, GPU, MEBI));
	end_pair(&p);
}

/* Answers to a peer are not taken for those to the next one that has its slot. */
UNIT_TEST_WITH(test_slot, prepare, NULL)
{
	struct pair p = make_pair();
	export_open(&p, allocate(1, GPU, MEBI));
	exporter_detach(p.y, p.of_x);
	exporter_detach(p.x, p.of_y);
	await(closes == 1);
	struct exporter *z = begin(2);
	do { /* until the slot is free */
		p.of_x = attach(p.y, z);
		if (p.of_x != p.y->tables->peers)
			exporter_detach(p.y, p.of_x);
	} while (p.of_x != p.y->tables->peers && !usleep(1000));
	attach(z, p.y);
	open_us[1] = 100000;
	const uint64_t number = export(z, allocate(2, GPU, MEBI));
	usleep(20000);
	assert_int_equal(usable(z, number), 0);
	await(usable(z, number) == number);
	exporter_detach(p.y, p.of_x);
	exporter_close(z);
	exporter_close(p.x);
	exporter_close(p.y);
}

/* Peers hold much that was freed: nothing more is published before they have closed it. */
UNIT_TEST_WITH(test_held, prepare, NULL)
{
	enum { GIB = 1 << 30 };
	struct pair p = make_pair();
	for (int i = 0; i < 3; i++)
		export_open(&p, allocate(i, GPU, i ? GIB : MEBI));
	close_waits[1] = 1;
	release(0, 0);
	release(0, 1);
	await(state_of(p.x, 1) == EXPORT_DEAD && state_of(p.x, 2) == EXPORT_DEAD);
	const int before = infos;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(exporter_find(p.x, (void *)address(20), 1024, 1).number, 0);
		allocate(20, GPU, MEBI);
	}
	assert_int_equal(find(p.x, 2).number, 3);
	assert_int_equal(infos, before + 2);
	close_waits[1] = 0;
	await(exporter_find(p.x, (void *)address(20), 1024, 1).number == 4);
	end_pair(&p);
}

UNIT_TEST_WITH(test_three, prepare, NULL)
{
	struct pair p = make_pair();
	struct exporter *z = begin(2);
	const struct exports *at_z[] = { attach(z, p.x), attach(z, p.y) };
	attach(p.x, z);
	attach(p.y, z);
	open_us[2] = 50000;
	const uint64_t number = export(p.x, allocate(1, GPU, MEBI)),
		       other = export(p.y, allocate(2, GPU, MEBI));
	await(load(&p.of_x->opened) == number && load(&p.of_y->opened) == other);
	await(usable(p.x, number) && usable(p.y, other));
	assert_int_equal(at(at_z[0], number), mapped(2, 1));
	assert_int_equal(at(at_z[1], other), mapped(2, 2));
	/* one that is closed is waited for no more */
	open_us[2] = 0;
	exporter_close(z);
	await(!allocations[1].opens[2] && !allocations[2].opens[2]);
	export_open(&p, allocate(3, GPU, MEBI));
	release(0, 1);
	await(state_of(p.x, number) == EXPORT_FREE);
	end_pair(&p);
}

/* ---- Runs: memory of cuMemCreate ---- */

/* Whether a process can read an allocation there. */
static int lies_at(uint64_t where, int process, int i)
{
	if (where < reserved_from)
		return where == mapped(process, i) && allocations[i].opens[process] > 0;
	pthread_mutex_lock(&mappings_lock);
	const struct mapping *m = mapping_at(where);
	const int lies =
	    m && m->process == process && m->id == allocations[i].id && m->reads && m->at == where;
	pthread_mutex_unlock(&mappings_lock);
	return lies;
}

static int descriptors(void)
{
	int n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A buffer from the middle of the first to that of the last piece. */
static struct export_ref find_run(struct exporter *x, int i, int pieces, int captured)
{
	return exporter_find(x, (void *)(address(i) + MEBI), (size_t)(pieces - 1) * 2 * MEBI, captured);
}

static void allocate_run(int i, int pieces)
{
	for (int k = 0; k < pieces; k++)
		allocate(i + k, PIECE, 2 * MEBI);
}

/* Published, and mapped side by side. */
static uint64_t open_run(const struct pair *p, int i, int pieces)
{
	exporter_own(p->y);
	assert_int_equal(find_run(p->x, i, pieces, 0).number, 0);
	assert_int_equal(find_run(p->x, i, pieces, 0).number, 0);
	const struct export_ref ref = find_run(p->x, i, pieces, 0);
	assert_int_not_equal(ref.number, 0);
	assert_int_equal(ref.offset, MEBI);
	await(usable(p->x, ref.number) == ref.number && load(&p->of_x->opened) >= ref.number);
	for (int k = 0; k < pieces; k++)
		assert_true(lies_at(at(p->of_x, ref.number) + (uint64_t)k * 2 * MEBI, 1, i + k));
	assert_int_equal(find_run(p->x, i, pieces, 0).number, ref.number);
	return ref.number;
}

UNIT_TEST_WITH(test_pieces, prepare, NULL)
{
	enum { MANY = 70 /* which take three mails */ };
	struct pair p = make_pair();
	const struct exports *own = attach(p.x, p.x);
	const int before = descriptors();
	allocate_run(10, MANY);
	for (int round = 0; round < 2; round++) {
		no_read_only = round;
		/* one piece, as corale_mem_alloc's: all buffers in it are in one export */
		const int i = round ? 200 : 300;
		allocate(i, PIECE, 2 * MEBI);
		const uint64_t one = exporter_find(p.x, (void *)address(i), 2 * MEBI, 1).number;
		await(usable(p.x, one) == one && load(&p.of_x->opened) >= one);
		assert_true(lies_at(at(p.of_x, one), 1, i));
		assert_int_equal(at(own, one), address(i));
		assert_int_equal(exporter_find(p.x, (void *)(address(i) + 64), 64, 0).number, one);
		assert_int_equal(exporter_find(p.x, (void *)(address(i) + 64), 64, 0).offset, 64);
		pthread_mutex_lock(&mappings_lock);
		assert_int_equal(mapping_at(at(p.of_x, one))->writes, round);
		pthread_mutex_unlock(&mappings_lock);
	}
	const uint64_t many = open_run(&p, 10, MANY), some = open_run(&p, 10, 3), two = open_run(&p, 12, 2);
	assert_true(many != some && some != two);
	assert_int_equal(descriptors(), before);
	assert_int_equal(handles, MANY + 3 + 2 + 2); /* held while they are exported */
	/* an export has what its buffer needs and no more, so others live on */
	release(0, 10 + MANY - 1);
	await(state_of(p.x, many) == EXPORT_FREE);
	assert_int_equal(usable(p.x, some), some);
	assert_true(lies_at(at(p.of_x, two), 1, 12));
	assert_int_equal(infos, 0);
	exporter_detach(p.x, own);
	end_pair(&p);
}

/* A piece in the middle is another one: nothing names the export from that time on, and peers give it up while none of their calls runs. */
UNIT_TEST_WITH(test_remapped, prepare, NULL)
{
	static _Atomic int rest;
	static struct exporter_user user = { rests, &rest, NULL };
	struct pair p = make_pair();
	rest = 0;
	exporter_add_user(p.y, &user);
	allocate_run(10, 3);
	const uint64_t number = open_run(&p, 10, 3);
	release(0, 11);
	assert_int_equal(find_run(p.x, 10, 3, 0).number, 0); /* its allocations end before it does */
	allocate(11, PIECE, 2 * MEBI);
	const uint64_t next = open_run(&p, 10, 3);
	assert_int_not_equal(next, number);
	await(!at(p.of_x, number));
	usleep(50000);
	assert_int_equal(usable(p.x, number), 0);
	assert_int_equal(closes, 0);
	rest = 1;
	await(closes == 3 && state_of(p.x, number) == EXPORT_FREE);
	assert_int_equal(usable(p.x, next), next);
	exporter_remove_user(p.y, &user);
	end_pair(&p);
}

UNIT_TEST_WITH(test_pieces_refused, prepare, NULL)
{
	struct pair p = make_pair();
	allocate_run(10, 5);
	allocate(12, NOT_LEGACY, 2 * MEBI); /* has no descriptor */
	for (int i = 0; i < 5; i++)
		assert_int_equal(find_run(p.x, 10, 5, 0).number, 0);
	assert_int_equal(infos, 1);
	allocate(12, OTHER, 2 * MEBI);
	assert_int_equal(find_run(p.x, 10, 5, 1).number, 0);
	release(0, 12);
	assert_int_equal(find_run(p.x, 10, 5, 1).number, 0);
	allocate(12, PIECE, MEBI); /* a hole behind it */
	assert_int_equal(find_run(p.x, 10, 5, 1).number, 0);
	assert_int_equal(exporter_find(p.x, (void *)address(10), SIZE_MAX, 1).number, 0);
	allocate(12, PIECE, 2 * MEBI);
	exports_fail = 1;
	assert_int_equal(find_run(p.x, 10, 5, 1).number, 0);
	exports_fail = 0;
	assert_int_equal(find_run(p.x, 10, 5, 1).number, 0); /* for ever */
	assert_int_equal(state_of(p.x, 1), EXPORT_FREE);
	/* the driver of the peer does not take the second one */
	allocate_run(20, 2);
	fails_in[1] = 1;
	const int before = infos;
	exporter_own(p.y);
	const uint64_t number = find_run(p.x, 20, 2, 1).number;
	await(number && !find_run(p.x, 20, 2, 0).number);
	assert_int_equal(usable(p.x, number), 0);
	fails_in[1] = 0;
	assert_int_equal(find_run(p.x, 20, 2, 1).number, 0);
	assert_int_equal(infos, before + 1);
	allocate_run(30, 2);
	open_run(&p, 30, 2);
	end_pair(&p);
}

static _Atomic int remapped;

static void remap_first(void)
{
	if (remapped++ == 2) /* the first two are made to see that it can be done */
		allocate(10, PIECE, 2 * MEBI);
}

static void wait_a_ms(void)
{
	usleep(1000);
}

/* A run of which a piece is remapped while it is sent is given up, and the next call on its addresses is on another one; descriptors that never come are not waited for, beside calls
 * on other memory. */
UNIT_TEST_WITH(test_late_pieces, prepare, NULL)
{
	struct pair p = make_pair();
	allocate_run(10, 2);
	remapped = 0;
	before_export = remap_first;
	assert_int_equal(find_run(p.x, 10, 2, 1).number, 1);
	await(remapped > 2 && state_of(p.x, 1) == EXPORT_FREE && opens == closes);
	before_export = NULL;
	assert_int_not_equal(find_run(p.x, 10, 2, 0).number, 1);
	allocate_run(20, 2);
	open_us[1] = 50000; /* till exports_fail is set */
	find_run(p.x, 20, 2, 1);
	exports_fail = 1;
	for (int i = 0; i < 100; i++)
		find_run(p.x, 20, 2, 1);
	await(usable(p.x, 2) || !find_run(p.x, 20, 2, 0).number);
	exports_fail = open_us[1] = 0;
	export_open(&p, allocate(30, GPU, MEBI));
	/* the owner is slow, so it is asked again, and answers twice */
	before_export = wait_a_ms;
	allocate_run(100, 70);
	open_run(&p, 100, 70);
	before_export = NULL;
	end_pair(&p);
	/* the owner knows only later who asks */
	p.x = begin(0);
	p.y = begin(1);
	p.of_x = attach(p.y, p.x);
	allocate_run(200, 2);
	const uint64_t number = find_run(p.x, 200, 2, 1).number;
	usleep(50000);
	assert_int_equal(load(&p.of_x->opened), 0);
	p.of_y = attach(p.x, p.y);
	await(load(&p.of_x->opened) >= number);
	assert_true(lies_at(at(p.of_x, number), 1, 200));
	end_pair(&p);
}

/* Datagrams of others change nothing, and leave no descriptor open. */
UNIT_TEST_WITH(test_strange_mail, prepare, NULL)
{
	struct mail m = { .from = 77, .number = 1, .pieces = 2, .bytes = { MEBI, MEBI } };
	int fds[MAIL_PIECES];
	struct pair p = make_pair();
	const uint64_t to = p.y->board->instance;
	const int before = descriptors(), fd = mail_open(first_process + 77);
	assert_true(fd >= 0);
	assert_int_equal(mail_open(first_process + 77), -1);
	for (int i = 0; i < MAIL_PIECES; i++)
		fds[i] = STDERR_FILENO;
	open_us[1] = 20000;
	allocate_run(10, 3);
	find_run(p.x, 10, 3, 1);
	for (int i = 0; i < 200; i++) {
		m.from = i % 2 ? first_process + 77 : p.x->board->instance;
		m.number = 1;
		m.pieces = i % 3 ? 2 : 0;
		m.first = i % 5 ? 1 : 0xffffffff;
		mail_send(i % 7 ? to : p.x->board->instance, &m, fds);
		m.pieces = MAIL_PIECES;
		m.number = i % 2 ? 5 : UINT64_MAX;
		mail_send(to, &m, fds);
		usleep(500);
	}
	m = (struct mail){ .from = first_process + 77, .number = 1 };
	mail_send(p.x->board->instance, &m, NULL);
	usleep(100000);
	assert_int_equal(mail_receive(fd, &m, fds), -1); /* it is no peer */
	close(fd);
	open_us[1] = 0;
	await(usable(p.x, 1) == 1 || !find_run(p.x, 10, 3, 0).number);
	allocate_run(20, 3);
	open_run(&p, 20, 3);
	await(descriptors() == before);
	end_pair(&p);
}

/* Two GPUs of one process. */
static struct pair make_own_pair(void)
{
	struct pair p = { .x = begin(0) };
	fake_context = (CUcontext)(uintptr_t)(PROCESSES * cases + 2);
	gpu_of[1] = 1;
	assert_int_equal(exporter_open(&driver, 1, 1, &p.y), 0);
	p.of_y = attach(p.x, p.y);
	p.of_x = attach(p.y, p.x);
	return p;
}

/* What cudaMalloc gave is used by its pointer; runs are mapped once more. */
UNIT_TEST_WITH(test_own_process, prepare, NULL)
{
	for (peer_error = 0; peer_error <= CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	     peer_error += CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
		prepare(NULL);
		struct pair p = make_own_pair();
		const uint64_t number = export(p.x, allocate(1, GPU, MEBI));
		await(usable(p.x, number) == number && load(&p.of_x->opened) == number);
		assert_int_equal(at(p.of_x, number), address(1));
		assert_int_equal(opens, 0);
		allocate_run(10, 3);
		open_run(&p, 10, 3);
		release(0, 1);
		await(state_of(p.x, number) == EXPORT_FREE);
		assert_int_equal(at(p.of_x, number), 0);
		assert_int_equal(allocations[1].opens[1], 0);
		assert_int_equal(infos, 0);
		end_pair(&p);
	}
	peer_error = 0;
}

/* Where one can't reach the other. */
UNIT_TEST_WITH(test_own_process_apart, prepare, NULL)
{
	peer_error = 217;
	struct pair p = make_own_pair();
	const uint64_t number = export(p.x, allocate(1, GPU, MEBI));
	await(usable(p.x, number) == number);
	usleep(20000);
	assert_int_equal(load(&p.of_x->opened), 0);
	assert_int_equal(infos, 2); /* one of each exporter */
	end_pair(&p);
	peer_error = 0;
}

UNIT_TEST_WITH(test_boards, prepare, NULL)
{
	struct exporter *x = begin(0);
	const struct exports *table;
	const char *failed_at;
	int ends[2];
	assert_int_equal(descriptor_pipe(ends), 0);
	const int small = descriptor_memory("small", 4096, &failed_at),
		  zeros = descriptor_memory("zeros", sizeof(struct board), &failed_at),
		  open_end = memfd_create("unsealed", MFD_CLOEXEC);
	struct exporter *y = begin(1);
	assert_int_equal(write(open_end, y->board, sizeof(struct board)), sizeof(struct board));
	const int wrong[] = { ends[0], small, zeros, open_end, -1 };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(exporter_attach(x, wrong[i], &table), CORALE_EPEER);
		close(wrong[i]);
	}
	close(ends[1]);
	y->board->version++;
	assert_int_equal(exporter_attach(x, exporter_fd(y), &table), CORALE_EPEER);
	exporter_close(y);
	exporter_close(x);
}

/* Stray stores on a board. */
UNIT_TEST_WITH(test_damaged, prepare, NULL)
{
	for (int round = 0; round < 6; round++) {
		prepare(NULL);
		struct pair p = make_pair();
		const uint64_t number = export_open(&p, allocate(1, GPU, MEBI));
		export_open(&p, allocate(2, GPU, MEBI));
		struct board *b =
		    mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, exporter_fd(p.x), 0);
		switch (round) {
		case 0:
			b->published = 1; /* back */
			break;
		case 1:
			b->published = UINT64_MAX;
			break;
		case 2:
			b->entries[2].number = number; /* of another index */
			break;
		case 3:
			memset(b, 0xff, sizeof *b);
			break;
		case 4:
			b->entries[3].number = 3 + EXPORTS_ROOM; /* a handle of nothing */
			memset((void *)b->entries[3].handle, 1, sizeof(cudaIpcMemHandle_t));
			b->published = 3 + EXPORTS_ROOM;
			break;
		case 5:
			memset((unsigned char *)b->answers, 0xff, sizeof b->answers);
			break;
		}
		b->deaths++;
		if (round < 4) {
			await(errors || round == 2);
		}
		usleep(120000);
		if (round < 4 && errors)
			assert_int_equal(load(&p.of_x->opened), 0);
		if (round == 4)
			await(load(&p.of_x->opened) == 2 + EXPORTS_ROOM);
		export(p.y, allocate(7, GPU, MEBI)); /* the other direction goes on */
		exporter_detach(p.y, p.of_x);
		exporter_detach(p.x, p.of_y);
		exporter_close(p.y);
		exporter_close(p.x);
		munmap(b, sizeof *b);
		await(opens == closes);
	}
}

/* The GPU's context is lost: one line, and calls go through slots. */
UNIT_TEST_WITH(test_broken, prepare, NULL)
{
	struct pair p = make_pair();
	export_open(&p, allocate(1, GPU, MEBI));
	copies_fail = 1;
	allocate(2, GPU, MEBI);
	for (int i = 0; i < 3; i++)
		find(p.x, 2);
	await(!find(p.x, 1).number && errors);
	usleep(100000);
	assert_in_range(errors, 1, 2); /* one of each */
	exporter_close(p.x);
	exporter_close(p.y);
	copies_fail = 0;
}

/* ---- Everything at once ---- */

enum { LIVE = 24, CALLS = 4000 };

static _Atomic int over;

struct stress {
	struct exporter *of[3];
	const struct exports *table[3][3]; /* by reader, owner */
	_Atomic uint64_t fast, slow;
};

/* A call of two ranks, on the memory of one: what kernels read, in their order, with other threads between. Addresses are mapped while they are read. */
static void run_kernels(struct stress *s, int owner, int reader, struct export_ref ref, int i)
{
	pthread_rwlock_t *first = &kernels[owner < reader ? owner : reader],
			 *second = &kernels[owner < reader ? reader : owner];
	pthread_rwlock_rdlock(first);
	pthread_rwlock_rdlock(second);
	const uint64_t named = usable(s->of[owner], ref.number) == ref.number ? ref.number : 0;
	if (rand() % 8 == 0)
		usleep(rand() % 3000); /* the reader's kernel begins later */
	const uint64_t opened = load(&s->table[reader][owner]->opened);
	if (named && opened >= named) {
		sched_yield();
		assert_true(lies_at(at(s->table[reader][owner], named), reader, i));
		s->fast++;
	} else {
		s->slow++;
	}
	pthread_rwlock_unlock(second);
	pthread_rwlock_unlock(first);
}

struct caller {
	struct stress *stress;
	int process;
};

static void *call(void *arg)
{
	const struct caller *c = arg;
	for (int n = 0; n < CALLS && !over; n++) {
		const int i = c->process * 1000 + rand() % LIVE;
		if (rand() % 16 == 0 || !allocations[i].id) {
			release(c->process, i);
			allocate(i, i % 3 ? GPU : PIECE, MEBI);
		}
		const struct export_ref ref = find(c->stress->of[c->process], i);
		if (ref.number)
			run_kernels(c->stress, c->process, (c->process + 1 + rand() % 2) % 3, ref, i);
	}
	return NULL;
}

UNIT_TEST_WITH(test_all, prepare, NULL)
{
	struct stress s = { .fast = 0 };
	struct caller callers[3];
	pthread_t threads[3];
	slow_copies = 1;
	for (int i = 0; i < 3; i++)
		s.of[i] = begin(i);
	for (int i = 0; i < 9; i++)
		s.table[i / 3][i % 3] = attach(s.of[i / 3], s.of[i % 3]);
	for (int i = 0; i < 3; i++) {
		callers[i] = (struct caller){ &s, i };
		assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
	}
	for (int i = 0; i < 20; i++) { /* some can't be opened */
		usleep(20000);
		fails_in[i % 3] = i % 4 == 0;
	}
	memset((void *)fails_in, 0, sizeof fails_in);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	slow_copies = 0;
	print_message("# %d calls by the programs' memory, %d through slots, %d opened\n", (int)s.fast,
		      (int)s.slow, (int)opens);
	assert_true(s.fast > 100);
	for (int i = 0; i < 9; i++)
		exporter_detach(s.of[i / 3], s.table[i / 3][i % 3]);
	for (int i = 0; i < 3; i++)
		exporter_close(s.of[i]);
	await(opens == closes && !reservations);
	assert_int_equal(handles, 0);
	assert_int_equal(errors, 0);
}

int main(void)
{
	for (int i = 0; i < PROCESSES; i++)
		pthread_rwlock_init(&kernels[i], NULL);
	first_process = (uint64_t)getpid() << 20;
	log_open(LOG_INFO, NULL);
	log_set_writer(count_line);
	cmocka_set_test_filter(getenv("EXPORTER_TEST_ONLY"));
	return unit_run(NULL, NULL);
}
