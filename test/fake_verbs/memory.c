#include "memory.h"

#include <errno.h>
#include <stdlib.h>

/* A key is a region's place here. Places are taken in turn, so that a key which was given back is refused for long. */
enum { MOST_REGIONS = 1 << 16 };

struct region {
	struct ibv_mr mr;
	uint64_t start; /* the address by which peers name its first byte */
	unsigned access;
};

static struct region *regions[MOST_REGIONS];
static uint32_t next_region;

void *fake_memory_at(uint32_t key, uint64_t address, size_t bytes, unsigned access)
{
	const struct region *r = key < MOST_REGIONS ? regions[key] : NULL;
	if (!r || (r->access & access) != access || address < r->start || bytes > r->mr.length ||
	    address - r->start > r->mr.length - bytes)
		return NULL;
	return (unsigned char *)r->mr.addr + (address - r->start);
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

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct region *r = calloc(1, sizeof(*r));
	uint32_t key = MOST_REGIONS;

	fake_lock();
	if (r && (key = find_free()) < MOST_REGIONS) {
		*r = (struct region){ .mr = { .context = pd->context,
					      .pd = pd,
					      .addr = addr,
					      .length = length,
					      .lkey = key,
					      .rkey = key },
				      .start = iova,
				      .access = access };
		regions[key] = r;
		next_region = key + 1;
	}
	fake_unlock();
	if (key < MOST_REGIONS)
		return &r->mr;
	free(r);
	errno = ENOMEM;
	return NULL;
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

/* No memory of this machine has a dmabuf that the adapter can reach. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	fake_lock();
	regions[mr->lkey] = NULL;
	fake_unlock();
	free(mr);
	return 0;
}
