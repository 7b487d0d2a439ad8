#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A toolkit that is too old is refused by configure, a driver that is too old by the library; both messages name what
# was found and what is needed. Toolkit and driver are made up here. TAP; the driver's cases in builds with CUDA only.
number=0
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# has TEXT FILE DESCRIPTION
has()
{
	number=$((number + 1))
	if grep -qF -- "$1" "$2"; then echo "ok $number - $3"; else echo "not ok $number - $3"; tail -n 5 "$2" | sed 's/^/# /'; fi
}

mkdir -p "$scratch/toolkit/bin" "$scratch/toolkit/include" "$scratch/build"
printf '#!/bin/sh\n' >"$scratch/toolkit/bin/nvcc"
chmod +x "$scratch/toolkit/bin/nvcc"
echo '#define CUDART_VERSION 12000' >"$scratch/toolkit/include/cuda_runtime_api.h"
(cd "$scratch/build" && exec "$top_srcdir/configure" --with-cuda="$scratch/toolkit" --without-mpi --without-ucx \
	--without-hwloc --without-cmocka) >"$scratch/configure" 2>&1
has "CUDA 12.0 in $scratch/toolkit is too old: CUDA 12.1 or newer is needed" "$scratch/configure" "configure refuses CUDA 12.0"

# driver VERSION [MISSING]: what corale-info says with a driver of that version that lacks a function.
driver()
{
	FAKE_VERSION=$1 FAKE_MISSING=${2:-} LD_LIBRARY_PATH=$scratch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
		"$top_builddir/examples/corale-info" >"$scratch/info" 2>&1
}

"$top_builddir/examples/corale-info" | grep -q '^  CUDA  *yes' || { echo "1..$number"; exit; }
cat >"$scratch/driver.c" <<'C'
#include <stdlib.h>
#include <string.h>

static int fails(void)
{
	return 3; /* not initialized */
}

int cuInit(unsigned flags)
{
	(void)flags;
	return 0;
}

int cuDriverGetVersion(int *version)
{
	*version = atoi(getenv("FAKE_VERSION"));
	return 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *found)
{
	int missing = !strcmp(name, getenv("FAKE_MISSING"));
	(void)version, (void)flags;
	*function = !strcmp(name, "cuInit")		  ? (void *)cuInit
		    : !strcmp(name, "cuDriverGetVersion") ? (void *)cuDriverGetVersion
		    : !strcmp(name, "cuGetProcAddress")	  ? (void *)cuGetProcAddress_v2
							  : (void *)fails;
	if (missing)
		*function = NULL;
	if (found)
		*found = missing;
	return missing ? 500 : 0;
}

int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags)
{
	return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
C
${CC:-cc} -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$scratch/libcuda.so.1" "$scratch/driver.c" || exit 1
driver 12000
has "the driver is one of CUDA 12.0: this build needs CUDA 1" "$scratch/info" "a driver of CUDA 12.0 is refused"
driver 99000 cuMemMap
has "the driver has no cuMemMap" "$scratch/info" "a missing function is named"
echo "1..$number"
