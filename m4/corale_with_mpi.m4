dnl SPDX-License-Identifier: BSD-3-Clause
dnl CORALE_WITH_MPI
dnl
dnl --with-mpi = yes (an error if absent), no, DIR (DIR/bin/mpicc), a compiler wrapper such as mpicc.mpich,
dnl or unset (used if found). CC stays the compiler: the wrapper is only asked for its flags, which are used
dnl on the MPI glue and the MPI programs alone.
dnl Sets MPI_CFLAGS, MPI_LIBS, MPIRUN (the wrapper's own launcher), HAVE_MPI, corale_mpi_summary.
AC_DEFUN([CORALE_WITH_MPI], [
	AC_ARG_WITH([mpi],
		[AS_HELP_STRING([--with-mpi@<:@=DIR|WRAPPER@:>@],
			[MPI: yes, no, where it is installed, or a wrapper such as mpicc.mpich (default: if found)])],
		[], [with_mpi=guess])
	AC_ARG_VAR([MPIRUN], [the launcher that belongs to the MPI library])
	MPICC=
	MPI_CFLAGS=
	MPI_LIBS=
	corale_found=no
	corale_why="not wanted"
	AS_CASE([$with_mpi],
		[no], [],
		[yes|guess], [AC_PATH_PROG([MPICC], [mpicc])],
		[AS_IF([test -d "$with_mpi"], [MPICC=$with_mpi/bin/mpicc], [AC_PATH_PROG([MPICC], [$with_mpi])])])
	AS_IF([test "x$with_mpi" = xno], [],
		[test -z "$MPICC" || test ! -x "$MPICC"], [corale_why="no compiler wrapper mpicc found"],
		[_CORALE_MPI_FLAGS])
	AS_IF([test $corale_found = no], [
		AS_CASE([$with_mpi], [no|guess], [], [AC_MSG_ERROR([--with-mpi=$with_mpi: $corale_why])])
		MPI_CFLAGS=
		MPI_LIBS=
		MPIRUN=
		corale_mpi_summary="no ($corale_why)"])
	AC_SUBST([MPI_CFLAGS])
	AC_SUBST([MPI_LIBS])
	AM_CONDITIONAL([HAVE_MPI], [test $corale_found = yes])
])

dnl Asks $MPICC for its flags, in Open MPI's way, then in MPICH's, and tries them.
AC_DEFUN([_CORALE_MPI_FLAGS], [
	AC_MSG_CHECKING([the flags of $MPICC])
	corale_kind="Open MPI"
	AS_IF([MPI_CFLAGS=`$MPICC --showme:compile 2>/dev/null`],
		[MPI_LIBS=`$MPICC --showme:link 2>/dev/null`],
		[corale_kind=MPICH
		 _CORALE_MPI_WORDS([MPI_CFLAGS], [-compile_info], [-I*|-D*|-pthread])
		 _CORALE_MPI_WORDS([MPI_LIBS], [-link_info], [-L*|-l*|-Wl,*rpath*|-pthread])])
	AC_MSG_RESULT([$MPI_CFLAGS $MPI_LIBS])
	corale_save_CPPFLAGS=$CPPFLAGS
	corale_save_LIBS=$LIBS
	CPPFLAGS="$CPPFLAGS $MPI_CFLAGS"
	LIBS="$MPI_LIBS $LIBS"
	AC_MSG_CHECKING([whether they link MPI 3 or newer])
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#if MPI_VERSION < 3
#error MPI 3 is needed
#endif
]], [[int done; return MPI_Initialized(&done);]])],
		[corale_found=yes], [corale_why="$MPICC's flags do not link an MPI 3 program; see config.log"])
	AC_MSG_RESULT([$corale_found])
	CPPFLAGS=$corale_save_CPPFLAGS
	LIBS=$corale_save_LIBS
	AS_IF([test $corale_found = yes], [
		AS_IF([test -z "$MPIRUN"], [
			corale_dir=`AS_DIRNAME(["$MPICC"])`
			corale_base=`AS_BASENAME(["$MPICC"])`
			MPIRUN=$corale_dir/`AS_ECHO(["$corale_base"]) | sed 's/mpicc/mpirun/'`
			AS_IF([test ! -x "$MPIRUN"],
				[MPIRUN=$corale_dir/`AS_ECHO(["$corale_base"]) | sed 's/mpicc/mpiexec/'`])
			AS_IF([test ! -x "$MPIRUN"], [AC_MSG_WARN([no launcher beside $MPICC: MPI tests will fail; set MPIRUN])])])
		corale_mpi_summary="yes ($corale_kind by $MPICC, $MPIRUN)"])
])

dnl _CORALE_MPI_WORDS(VARIABLE, QUESTION, PATTERNS): the words of MPICH's answer that match PATTERNS; it is a whole
dnl command line with the distribution's optimisation flags in it.
AC_DEFUN([_CORALE_MPI_WORDS], [
	$1=
	for corale_word in `$MPICC $2 2>/dev/null`; do
		AS_CASE([$corale_word], [$3], [$1="$$1 $corale_word"])
	done
])
