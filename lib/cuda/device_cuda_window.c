/*
 * The windows of the executor of steps, each at addresses of its own.
 */
#include "device_cuda.h"

int cuda_check(const struct device *d, cudaError_t error, const char *what)
{
	return cuda_report(d->rank, d->ordinal, error, what);
}

static struct cuda_place place_of(const struct device *d)
{
	return (struct cuda_place){ &d->driver, d->rank, d->ordinal };
}

int cuda_check_driver(const struct device *d, CUresult error, const char *what)
{
	return cuda_report_driver(place_of(d), error, what);
}

/* Reserves addresses for w->handle and maps it there, for this GPU; on failure the handle is released. */
static int map_window(struct device *d, struct cuda_window *w, size_t bytes)
{
	int result = cuda_check_driver(d, d->driver.reserve(&w->base, bytes, 0, 0, 0), "reserving addresses");
	if (!result) {
		result = cuda_memory_map(place_of(d), w->base, bytes, w->handle);
		if (result)
			d->driver.unreserve(w->base, bytes);
	}
	if (result)
		d->driver.release(w->handle);
	else
		w->bytes = bytes;
	return result;
}

void cuda_unmap_window(struct device *d, struct cuda_window *w)
{
	if (!w->bytes)
		return;
	d->driver.unmap(w->base, w->bytes);
	d->driver.unreserve(w->base, w->bytes);
	d->driver.release(w->handle);
	w->bytes = 0;
}

/* Bytes of a window in the memory it is made of; equal on equal GPUs. */
static int window_bytes(const struct device *d, size_t *bytes)
{
	size_t unit = 0;
	int result = cuda_memory_unit(place_of(d), &unit);
	if (!result)
		*bytes = plan_div_up(d->layout.bytes, unit) * unit;
	return result;
}

int cuda_make_window(struct device *d)
{
	struct cuda_window *w = &d->windows[d->me];
	size_t bytes = 0;
	int result = window_bytes(d, &bytes);
	if (!result)
		result = cuda_memory_make(place_of(d), bytes, &w->handle);
	if (!result)
		result = map_window(d, w, bytes);
	if (!result)
		result =
		    cuda_check(d, cudaMemset((void *)w->base, 0, d->layout.payload), "clearing a window");
	d->bytes += w->bytes;
	return result;
}

int cuda_window_fd(struct device *d, int *fd)
{
	return cuda_memory_export(place_of(d), d->windows[d->me].handle, fd);
}

int cuda_connect(struct device *d, const int *fds)
{
	size_t bytes = 0;
	int result = window_bytes(d, &bytes);
	for (int i = 0; !result && i < d->layout.peers; i++) {
		if (i == d->me)
			continue;
		result = cuda_memory_import(place_of(d), fds[i], &d->windows[i].handle);
		if (!result)
			result = map_window(d, &d->windows[i], bytes);
	}
	return result;
}
