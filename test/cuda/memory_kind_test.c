/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * corale_memory_kind where there is CUDA (lib/cuda/engine_cuda_kind.c), by a driver that the test makes up, and where a build has none. The driver is asked at each
 * call, and only once the program has loaded it.
 */
#include <dlfcn.h>

#include "test/helpers/unit.h"
#include "cuda/engine_cuda.h"

enum { GPU = 3, CU_MEMORYTYPE_HOST = 1 };

static char memory[64];
static struct {
	int loaded, asked, error;
	unsigned type, is_managed;
	const void *at; /* the only memory that CUDA knows */
} driver;

static CUresult answer(unsigned n, CUpointer_attribute *attributes, void **values, CUdeviceptr at)
{
	const int is_known = (const void *)at == driver.at;
	driver.asked++;
	for (unsigned i = 0; i < n; i++) {
		if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
			*(unsigned *)values[i] = is_known ? driver.type : 0;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
			*(unsigned *)values[i] = is_known ? driver.is_managed : 0;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)values[i] = is_known ? GPU : -2;
	}
	return driver.error;
}

/* The linker puts these before the loader's. */
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *library, const char *name);

void *__wrap_dlopen(const char *name, int flags)
{
	assert_string_equal(name, "libcuda.so.1");
	assert_true(flags & RTLD_NOLOAD);
	return driver.loaded ? &driver : NULL;
}

void *__wrap_dlsym(void *library, const char *name)
{
	CUresult (*function)(unsigned, CUpointer_attribute *, void **, CUdeviceptr) = answer;
	void *out;
	assert_ptr_equal(library, &driver);
	assert_string_equal(name, "cuPointerGetAttributes");
	memcpy(&out, &function, sizeof out);
	return out;
}

static void expect(const void *at, int kind, int device)
{
	corale_memory got = { -1, -3 };
	assert_int_equal(engine_memory_kind(at, &got), 0);
	assert_int_equal(got.kind, kind);
	assert_int_equal(got.device, device);
}

UNIT_TEST(test_kinds)
{
	char other;
	driver.at = memory;
	driver.type = CU_MEMORYTYPE_DEVICE;
	expect(memory, CORALE_MEMORY_HOST, -1); /* nobody has loaded the driver */
	assert_int_equal(driver.asked, 0);
	driver.loaded = 1;
	expect(memory, CORALE_MEMORY_DEVICE, GPU);
	expect(&other, CORALE_MEMORY_HOST, -1);
	expect(NULL, CORALE_MEMORY_HOST, -1);
	driver.is_managed = 1;
	expect(memory, CORALE_MEMORY_MANAGED, GPU);
	driver.type = CU_MEMORYTYPE_HOST;
	expect(memory, CORALE_MEMORY_MANAGED, GPU); /* what lies on the host now */
	driver.is_managed = 0;
	expect(memory, CORALE_MEMORY_PINNED, GPU);
	driver.at = NULL; /* freed */
	expect(memory, CORALE_MEMORY_HOST, -1);
	assert_int_equal(driver.asked, 7);
}

UNIT_TEST(test_errors)
{
	corale_memory got;
	driver.loaded = 1;
	driver.at = memory;
	driver.type = CU_MEMORYTYPE_DEVICE;
	driver.error = CUDA_ERROR_NOT_INITIALIZED;
	expect(memory, CORALE_MEMORY_HOST, -1);
	driver.error = 700; /* a kernel has used a wrong address */
	assert_int_equal(engine_memory_kind(memory, &got), CORALE_EDEVICE);
	driver.error = 0;
}

UNIT_TEST(test_without_cuda)
{
	corale_memory got = { -1, -3 };
	driver.at = NULL; /* of a build with CUDA */
	assert_int_equal(corale_memory_kind(memory, NULL), CORALE_EINVAL);
	assert_int_equal(corale_memory_kind(memory, &got), 0);
	assert_int_equal(got.kind, CORALE_MEMORY_HOST);
	assert_int_equal(got.device, -1);
}
