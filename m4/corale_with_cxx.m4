dnl SPDX-License-Identifier: BSD-3-Clause
dnl CORALE_WITH_CXX: whether there is a C++17 compiler for the tests that compile kernels for the processor. The
dnl libraries need none. Sets CXX, CORALE_CXXFLAGS, HAVE_CXX, corale_cxx_summary.
AC_DEFUN([CORALE_WITH_CXX], [
	CORALE_CXXFLAGS="-std=gnu++17 -pthread -ffp-contract=off -fno-strict-aliasing -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function -Wno-unused-parameter -Wno-missing-field-initializers"
	corale_save_CXXFLAGS=$CXXFLAGS
	CXXFLAGS="$CXXFLAGS $CORALE_CXXFLAGS"
	AC_LANG_PUSH([C++])
	AC_MSG_CHECKING([whether $CXX takes C++17])
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[template <int N> int f() { if constexpr (N > 0) return N; else return 0; }]], [[return f<0>();]])],
		[corale_found=yes
		 corale_cxx_summary="yes ($CXX)"],
		[corale_found=no
		 corale_cxx_summary="no (no C++17 compiler)"])
	AC_MSG_RESULT([$corale_found])
	AC_LANG_POP([C++])
	CXXFLAGS=$corale_save_CXXFLAGS
	AC_SUBST([CORALE_CXXFLAGS])
	AM_CONDITIONAL([HAVE_CXX], [test $corale_found = yes])
])
