dnl SPDX-License-Identifier: BSD-3-Clause
dnl CORALE_WITH_PKG(NAME, MODULE, MIN-VERSION, HEADER, FUNCTION)
dnl
dnl --with-NAME = yes (an error if absent), no, DIR (searched alone), or unset (used if found).
dnl Asks pkg-config for MODULE, under DIR the .pc file of DIR, whose prefix may be of another machine (PyPI's libucx): DIR it is. HEADER
dnl and FUNCTION, when given, are tried with what was found.
dnl Sets NAME_CFLAGS, NAME_LIBS (upper case), HAVE_NAME (conditional and definition), corale_NAME_summary.
AC_DEFUN([CORALE_WITH_PKG], [
	AC_REQUIRE([PKG_PROG_PKG_CONFIG])
	AC_ARG_WITH([$1],
		[AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [$1 $3 or newer: yes, no, or where it is installed (default: if found)])],
		[], [with_$1=guess])
	corale_found=no
	corale_why="not wanted"
	corale_pkg_config=$PKG_CONFIG
	AS_CASE([$with_$1],
		[no|yes|guess], [],
		[corale_path=`ls -d "$with_$1"/lib/pkgconfig "$with_$1"/lib/*/pkgconfig "$with_$1"/lib64/pkgconfig 2>/dev/null | tr '\n' ':'`
		 corale_pkg_config="env PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=${corale_path:-/nonexistent} $PKG_CONFIG --define-variable=prefix=$with_$1"])
	AS_IF([test "x$with_$1" != xno], [
		AC_MSG_CHECKING([for $2 >= $3])
		AS_IF([test -z "$PKG_CONFIG"], [corale_why="no pkg-config"],
		[$corale_pkg_config --exists "$2 >= $3"],
			[corale_found=yes
			 corale_version=`$corale_pkg_config --modversion $2`
			 corale_cflags=`$corale_pkg_config --cflags $2`
			 corale_libs=`$corale_pkg_config --libs $2`],
		[corale_why="pkg-config finds no $2 >= $3"])
		AC_MSG_RESULT([$corale_found])])
	m4_ifval([$4], [AS_IF([test $corale_found = yes], [
		corale_save_CPPFLAGS=$CPPFLAGS
		corale_save_LIBS=$LIBS
		CPPFLAGS="$CPPFLAGS $corale_cflags"
		LIBS="$corale_libs $LIBS"
		AC_CHECK_HEADER([$4], [], [corale_found=no; corale_why="no header $4"])
		AC_CHECK_FUNC([$5], [], [corale_found=no; corale_why="no function $5"])
		CPPFLAGS=$corale_save_CPPFLAGS
		LIBS=$corale_save_LIBS])])
	AS_IF([test $corale_found = yes],
		[AC_DEFINE([HAVE_]m4_toupper([$1]), [1], [Define to 1 when $1 is used.])
		 corale_$1_summary="yes ($corale_version)"],
		[AS_CASE([$with_$1],
			[no|guess], [],
			[AC_MSG_ERROR([--with-$1=$with_$1: $corale_why])])
		 corale_cflags=
		 corale_libs=
		 corale_$1_summary="no ($corale_why)"])
	AC_SUBST(m4_toupper([$1_CFLAGS]), [$corale_cflags])
	AC_SUBST(m4_toupper([$1_LIBS]), [$corale_libs])
	AM_CONDITIONAL([HAVE_]m4_toupper([$1]), [test $corale_found = yes])
])
