dnl SPDX-License-Identifier: BSD-3-Clause
dnl CORALE_SANITIZER: --enable-sanitizer=address,undefined or =thread.
dnl Sets CORALE_SANITIZER_CFLAGS (compile and link).
AC_DEFUN([CORALE_SANITIZER], [
	AC_ARG_ENABLE([sanitizer],
		[AS_HELP_STRING([--enable-sanitizer=LIST], [build with -fsanitize=LIST (address,undefined or thread)])],
		[], [enable_sanitizer=no])
	CORALE_SANITIZER_CFLAGS=
	corale_sanitizer_summary=none
	AS_CASE([$enable_sanitizer],
		[no], [],
		[yes], [AC_MSG_ERROR([--enable-sanitizer needs a list: address,undefined or thread])],
		[CORALE_SANITIZER_CFLAGS="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer -fno-sanitize-recover=all"
		 corale_sanitizer_summary=$enable_sanitizer
		 corale_save_CFLAGS=$CFLAGS
		 CFLAGS="$CFLAGS $CORALE_SANITIZER_CFLAGS"
		 AC_MSG_CHECKING([whether $CC links with -fsanitize=$enable_sanitizer])
		 AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
			[AC_MSG_RESULT([yes])],
			[AC_MSG_RESULT([no])
			 AC_MSG_ERROR([$CC cannot link with -fsanitize=$enable_sanitizer: install its sanitizer libraries])])
		 CFLAGS=$corale_save_CFLAGS])
	AC_SUBST([CORALE_SANITIZER_CFLAGS])
	AM_CONDITIONAL([SANITIZER], [test "x$enable_sanitizer" != xno])
])
