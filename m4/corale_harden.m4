dnl SPDX-License-Identifier: BSD-3-Clause
dnl CORALE_HARDEN: what makes overwritten memory harder to use: checked string functions, stack guards, and tables of the
dnl dynamic linker that are written only while a program starts. Each where the compiler has it; nothing with a sanitizer, which
dnl looks for more. Behind CORALE_COMPILER and CORALE_SANITIZER. Sets CORALE_HARDEN_CFLAGS, CORALE_HARDEN_LDFLAGS, and
dnl corale_hardening: what there is (test/tree/hardening.sh).
AC_DEFUN([CORALE_HARDEN], [
	CORALE_HARDEN_CFLAGS=
	CORALE_HARDEN_LDFLAGS=
	corale_hardening=
	AS_IF([test "x$enable_sanitizer" = xno], [
		_CORALE_FORTIFY
		_CORALE_TRY_HARDEN([CFLAGS], [-fstack-protector-strong], [stack-protector])
		_CORALE_TRY_HARDEN([LDFLAGS], [-Wl,-z,relro], [relro])
		_CORALE_TRY_HARDEN([LDFLAGS], [-Wl,-z,now], [now])
	])
	AS_IF([test -z "$corale_hardening"], [corale_hardening=none])
	AC_SUBST([CORALE_HARDEN_CFLAGS])
	AC_SUBST([CORALE_HARDEN_LDFLAGS])
	AC_SUBST([corale_hardening])
])

dnl _CORALE_FORTIFY: the C library's checks need optimization; a compiler that asks for them by itself is left alone.
AC_DEFUN([_CORALE_FORTIFY], [
	AC_MSG_CHECKING([whether $CC optimizes])
	AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#ifndef __OPTIMIZE__
#error no
#endif
]])],
		[AC_MSG_RESULT([yes])
		 corale_hardening=fortify
		 AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#ifdef _FORTIFY_SOURCE
#error yes
#endif
]])], [CORALE_HARDEN_CFLAGS=-D_FORTIFY_SOURCE=2])],
		[AC_MSG_RESULT([no])])
])

dnl _CORALE_TRY_HARDEN(CFLAGS or LDFLAGS, FLAG, NAME): adds FLAG when a program is linked with it.
AC_DEFUN([_CORALE_TRY_HARDEN], [
	AC_MSG_CHECKING([whether $CC links with $2])
	corale_save_$1=$[$1]
	$1="$[$1] -Werror $2"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
		[AC_MSG_RESULT([yes])
		 CORALE_HARDEN_$1="$CORALE_HARDEN_$1 $2"
		 corale_hardening="$corale_hardening $3"],
		[AC_MSG_RESULT([no])])
	$1=$corale_save_$1
])
