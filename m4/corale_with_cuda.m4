dnl SPDX-License-Identifier: BSD-3-Clause
dnl CORALE_WITH_CUDA
dnl
dnl --with-cuda = yes (an error if absent), no, DIR (searched alone), or unset (used if nvcc is on PATH).
dnl The driver is never linked: a CUDA build runs where there is none.
dnl Sets NVCC, NVCC_GENCODE, CUDA_CPPFLAGS, CUDA_LIBS, HAVE_CUDA, HAVE_NVTX (its headers), corale_cuda_summary.
AC_DEFUN([CORALE_WITH_CUDA], [
	AC_ARG_WITH([cuda],
		[AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
			[CUDA 12.1 or newer: yes, no, or where it is installed (default: no)])],
		[], [with_cuda=no])
	AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags (default with CUDA 13: --compress-mode=size)])
	AC_ARG_VAR([NVCC_GENCODE], [code generation flags of nvcc (default: sm_80, sm_90, sm_100 and PTX)])
	NVCC=
	CUDA_CPPFLAGS=
	CUDA_LIBS=
	corale_found=no
	corale_nvtx=no
	corale_why="not wanted"
	AS_CASE([$with_cuda],
		[no], [],
		[yes|guess], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])],
		[AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
	AS_IF([test "x$with_cuda" = xno], [],
		[test -z "$NVCC"], [corale_why="no nvcc"],
		[_CORALE_CUDA_TRY])
	AS_IF([test $corale_found = no], [
		AS_CASE([$with_cuda], [no|guess], [], [AC_MSG_ERROR([--with-cuda=$with_cuda: $corale_why])])
		corale_cuda_summary="no ($corale_why)"],
		[AC_DEFINE([HAVE_CUDA], [1], [Define to 1 when the CUDA engine is built.])
		 corale_cuda_summary="yes ($corale_found_version by $NVCC)"
		 AS_IF([test $corale_nvtx = no], [corale_cuda_summary="$corale_cuda_summary, without NVTX"])])
	AC_SUBST([CUDA_CPPFLAGS])
	AC_SUBST([CUDA_LIBS])
	AM_CONDITIONAL([HAVE_CUDA], [test $corale_found = yes])
	AM_CONDITIONAL([HAVE_NVTX], [test $corale_found = yes && test $corale_nvtx = yes])
])

AC_DEFUN([_CORALE_CUDA_TRY], [
	corale_dir=`AS_DIRNAME(["$NVCC"])`
	dnl a link to it from outside its toolkit
	AS_IF([test ! -f "$corale_dir/../include/cuda_runtime_api.h"], [
		corale_real=`readlink -f "$NVCC"`
		corale_dir=`AS_DIRNAME(["$corale_real"])`])
	corale_dir=`cd "$corale_dir/.." && pwd`
	CUDA_CPPFLAGS="-isystem $corale_dir/include"
	for corale_lib in lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib; do
		AS_IF([test -z "$CUDA_LIBS" && test -f "$corale_dir/$corale_lib/libcudart_static.a"],
			[CUDA_LIBS="-L$corale_dir/$corale_lib -lcudart_static -ldl -lrt -lpthread"])
	done
	AS_IF([test -z "$NVCC_GENCODE"], [
		corale_archs=`$NVCC --list-gpu-arch 2>/dev/null`
		dnl and what this machine has, if its GPU is an older one
		corale_here=`nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^7\.5$/75/p' | head -n 1`
		for corale_arch in $corale_here 80 90 100; do
			AS_CASE([$corale_archs], [*compute_$corale_arch*],
				[NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$corale_arch,code=sm_$corale_arch"
				 corale_last=$corale_arch])
		done
		AS_IF([test -n "$corale_last"],
			[NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$corale_last,code=compute_$corale_last"])])
	corale_save_CPPFLAGS=$CPPFLAGS
	corale_save_LIBS=$LIBS
	CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
	_CORALE_CUDA_VERSION
	dnl Images of kernels are 4 to 11 times as large without it. Drivers of CUDA 13 take it, some of CUDA 12 do not.
	AS_IF([test -z "$NVCCFLAGS" && test $corale_version -ge 13000], [NVCCFLAGS=--compress-mode=size])
	LIBS="$CUDA_LIBS $LIBS"
	AS_IF([test $corale_version -ge 12010], [
		AC_MSG_CHECKING([whether CUDA links])
		AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>]], [[int n; return cudaGetDeviceCount(&n);]])],
			[corale_found=yes], [corale_why="CUDA $corale_found_version does not link from $corale_dir; see config.log"])
		AC_MSG_RESULT([$corale_found])])
	AC_CHECK_HEADER([nvtx3/nvToolsExt.h], [corale_nvtx=yes], [corale_nvtx=no])
	CPPFLAGS=$corale_save_CPPFLAGS
	LIBS=$corale_save_LIBS
])

dnl The least is CUDA 12.1: its nvcc is the first that takes kernels with more than 4,096 bytes of arguments, as
dnl kernels/p2p.cu has. Drivers are looked at when a program runs (lib/cuda/cuda_driver.c).
AC_DEFUN([_CORALE_CUDA_VERSION], [
	AC_MSG_CHECKING([for the version of CUDA])
	AC_COMPUTE_INT([corale_version], [CUDART_VERSION], [#include <cuda_runtime_api.h>], [corale_version=0])
	corale_found_version=`expr $corale_version / 1000`.`expr $corale_version % 1000 / 10`
	AS_IF([test $corale_version = 0], [
		corale_found_version=unknown
		corale_why="cuda_runtime_api.h does not compile from $corale_dir/include; see config.log"],
		[corale_why="CUDA $corale_found_version in $corale_dir is too old: CUDA 12.1 or newer is needed"])
	AC_MSG_RESULT([$corale_found_version])
])
