dnl SPDX-License-Identifier: BSD-3-Clause
dnl CORALE_COMPILER: C11, threads, and the flags that every object is built with.
dnl Sets CORALE_CFLAGS and CORALE_FRAME_CFLAGS. Floating-point contraction is off everywhere: results are defined bit by bit.
dnl -fopenmp-simd vectorizes the loops marked so, whatever the user's -O; it needs no OpenMP library.
AC_DEFUN([CORALE_COMPILER], [
	AC_ARG_ENABLE([werror],
		[AS_HELP_STRING([--enable-werror], [treat warnings as errors])],
		[], [enable_werror=no])
	CORALE_CFLAGS=
	m4_foreach_w([corale_flag], [-std=gnu11 -pthread -ffp-contract=off -fopenmp-simd -fvisibility=hidden -fno-strict-aliasing
		-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion -Wno-sign-conversion
		-Wvla -Wpointer-arith -Wwrite-strings -Wno-unused-parameter],
		[_CORALE_TRY_CFLAG(corale_flag)])
	AS_IF([test "x$enable_werror" != xno], [_CORALE_TRY_CFLAG([-Werror])])
	AC_SUBST([CORALE_CFLAGS])
	dnl Of the libraries: their calls work in threads with small stacks. Sanitizers enlarge frames.
	corale_save_CORALE_CFLAGS=$CORALE_CFLAGS
	CORALE_CFLAGS=
	AS_IF([test "x${enable_sanitizer-no}" = xno], [_CORALE_TRY_CFLAG([-Wframe-larger-than=8192])])
	CORALE_FRAME_CFLAGS=$CORALE_CFLAGS
	CORALE_CFLAGS=$corale_save_CORALE_CFLAGS
	AC_SUBST([CORALE_FRAME_CFLAGS])
	corale_save_LIBS=$LIBS
	LIBS=
	AC_SEARCH_LIBS([pthread_create], [pthread])
	AC_SEARCH_LIBS([dlopen], [dl])
	AC_SEARCH_LIBS([shm_open], [rt])
	AC_SEARCH_LIBS([lround], [m])
	SYSTEM_LIBS=$LIBS
	LIBS=$corale_save_LIBS
	AC_SUBST([SYSTEM_LIBS])
])

dnl _CORALE_TRY_CFLAG(FLAG): adds FLAG to CORALE_CFLAGS when the compiler takes it.
AC_DEFUN([_CORALE_TRY_CFLAG], [
	AS_VAR_PUSHDEF([cache], [corale_cv_cflag_$1])
	AC_CACHE_CHECK([whether $CC takes $1], [cache], [
		corale_save_CFLAGS=$CFLAGS
		CFLAGS="$CFLAGS -Werror $1"
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [AS_VAR_SET([cache], [yes])], [AS_VAR_SET([cache], [no])])
		CFLAGS=$corale_save_CFLAGS
	])
	AS_VAR_IF([cache], [yes], [CORALE_CFLAGS="$CORALE_CFLAGS $1"])
	AS_VAR_POPDEF([cache])
])
