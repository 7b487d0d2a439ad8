/* SPDX-License-Identifier: BSD-3-Clause */
/* Registers memory, and checks keys and bounds of each access as an adapter does. */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copier.h"
#include "faults.h"
#include "gpu.h"
#include "late.h"

/* A key is a region's place here. Places are taken in turn, so that a key which was given back is refused for long. */
enum { MOST_REGIONS = 1 << 16 };

struct region {
	struct ibv_mr mr;
	uint64_t start; /* the address by which peers name its first byte */
	unsigned char *bytes; /* where the adapter finds it */
	size_t mapped; /* bytes that the adapter has mapped for it */
	unsigned access;
	int is_gpu, is_copied;
};

static struct region *regions[MOST_REGIONS];
static uint32_t next_region;

static const struct region *find(uint32_t key)
{
	return key < MOST_REGIONS ? regions[key] : NULL;
}

int fake_memory_is_gpu(uint32_t key)
{
	const struct region *r = find(key);
	return r && r->is_gpu;
}

int fake_memory_is_copied(uint32_t key)
{
	const struct region *r = find(key);
	return r && r->is_copied;
}

int fake_memory_is_relaxed(uint32_t key)
{
	const struct region *r = find(key);
	return r && r->access & IBV_ACCESS_RELAXED_ORDERING;
}

void *fake_memory_at(uint32_t key, uint64_t address, size_t bytes, unsigned access)
{
	const struct region *r = find(key);
	if (!r || (r->access & access) != access || address < r->start || bytes > r->mr.length ||
	    address - r->start > r->mr.length - bytes)
		return NULL;
	return r->bytes + (address - r->start);
}

void fake_memory_store(uint32_t key, uint64_t address, const void *data, size_t bytes)
{
	const struct region *r = find(key);
	if (r->is_copied)
		fake_copier_store(key, address, data, bytes);
	else
		memcpy(r->bytes + (address - r->start), data, bytes);
}

int fake_memory_places(const struct fake_segments *segments, size_t offset, size_t bytes, unsigned access,
		       struct iovec *places)
{
	int count = 0;
	for (int i = 0; i < segments->count && bytes; i++) {
		const struct ibv_sge *s = &segments->at[i];
		if (offset >= s->length) {
			offset -= s->length;
			continue;
		}
		const size_t rest = s->length - offset, part = rest < bytes ? rest : bytes;
		places[count].iov_base = fake_memory_at(s->lkey, s->addr + offset, part, access);
		places[count].iov_len = part;
		if (!places[count++].iov_base)
			return -1;
		bytes -= part;
		offset = 0;
	}
	return bytes ? -1 : count;
}

/* A free place, or MOST_REGIONS. */
static uint32_t find_free(void)
{
	for (uint32_t i = 0; i < MOST_REGIONS; i++) {
		const uint32_t index = (next_region + i) % MOST_REGIONS;
		if (!regions[index])
			return index;
	}
	return MOST_REGIONS;
}

/* Gives the region a key. */
static int add(struct region *r)
{
	fake_lock();
	const uint32_t key = find_free();
	if (key < MOST_REGIONS) {
		r->mr.lkey = r->mr.rkey = key;
		regions[key] = r;
		next_region = key + 1;
	}
	fake_unlock();
	return key < MOST_REGIONS ? 0 : ENOMEM;
}

/* Why a registration fails: an errno, or 0. */
static int refuse(int is_gpu, const unsigned char *bytes, long has_module)
{
	static _Atomic long registered;
	if (fake_faults_is_dead())
		return EIO;
	if (registered >= fake_faults.most_registered)
		return ENOMEM;
	if (is_gpu && (!fake_faults.register_gpu || !has_module || !bytes))
		return EFAULT;
	registered++;
	return 0;
}

static struct ibv_mr *add_new(const struct region *region)
{
	struct region *r = malloc(sizeof(*r));
	if (!r) {
		errno = ENOMEM;
		return NULL;
	}
	*r = *region;
	if ((errno = add(r))) {
		free(r);
		return NULL;
	}
	return &r->mr;
}

/* Of a real GPU's memory. */
static struct ibv_mr *add_copied(struct region *region, int has_module)
{
	struct ibv_mr *mr = NULL;
	region->is_gpu = region->is_copied = 1;
	region->bytes = region->mr.addr;
	if (!(errno = refuse(1, region->bytes, has_module)))
		mr = add_new(region);
	const int ret = mr ? fake_copier_register(mr->lkey, region->start, mr->addr, mr->length) : 0;
	if (!ret)
		return mr;
	ibv_dereg_mr(mr);
	errno = ret;
	return NULL;
}

static int is_copied(const void *address)
{
	return fake_copier_is_used() && fake_copier_has(address);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct region r = { .mr = { .context = pd->context, .pd = pd, .addr = addr, .length = length },
			    .start = iova,
			    .access = access };
	if (is_copied(addr))
		return add_copied(&r, (int)fake_faults.peermem);
	r.is_gpu = fake_gpu_find(addr, length, &r.bytes);
	if ((errno = refuse(r.is_gpu, r.bytes, fake_faults.peermem)))
		return NULL;
	if (!r.is_gpu)
		r.bytes = addr;
	return add_new(&r);
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

/* A memory file stands for a dmabuf. EBADF, where there is none, tells programs that dmabufs are registered. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access)
{
	const uint64_t before = offset % (uint64_t)sysconf(_SC_PAGESIZE);
	struct region r = {
		.mr = { .context = pd->context, .pd = pd, .addr = (void *)iova, .length = length },
		.start = iova,
		.access = (unsigned)access,
		.is_gpu = 1,
		.mapped = length + before
	};
	struct stat status;
	if (!fake_faults.dmabuf) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (fstat(fd, &status)) /* EBADF */
		return NULL;
	if (is_copied(r.mr.addr)) {
		r.mapped = 0;
		return add_copied(&r, 1);
	}
	unsigned char *map =
	    mmap(NULL, r.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset - before));
	if (map == MAP_FAILED)
		return NULL;
	r.bytes = map + before;
	if (!(errno = refuse(1, r.bytes, 1))) {
		struct ibv_mr *mr = add_new(&r);
		if (mr)
			return mr;
	}
	munmap(map, r.mapped);
	return NULL;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct region *r = (struct region *)mr;
	fake_lock();
	if (r->is_copied)
		fake_copier_forget(mr->lkey);
	fake_late_forget(mr->lkey);
	regions[mr->lkey] = NULL;
	fake_unlock();
	if (r->mapped)
		munmap(r->bytes - (r->mapped - mr->length), r->mapped);
	free(mr);
	return 0;
}
