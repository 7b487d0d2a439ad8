#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The MPI door in a chain with tools that wrap MPI's functions, and with sanitizers' runtimes: each sees each call once. TAP.
. "$top_srcdir/test/run/launcher-env.sh"
door=$top_builddir/.libs/libcorale_pmpi.so
[ -f "$door" ] || { echo "1..0 # SKIP no MPI door in this build"; exit; }
launcher=$(command -v "$MPIRUN")
compiler() { echo "${launcher%/*}/$(basename "$MPIRUN" | sed "s/mpirun\|mpiexec/$1/")"; } # of the launcher's MPI
mpicc=$(compiler mpicc)
run=$(readlink -f "$top_builddir/nccl_glue/corale-run")
. "$top_srcdir/test/run/tap.sh"
reasons=$scratch/log
unset LD_PRELOAD
skip() # reason, description
{
	number=$((number + 1))
	echo "ok $number - $2 # SKIP $1"
}

# ---- Programs and tools

cat >"$scratch/calls.h" <<'EOF'
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#ifndef NAME
#define NAME "tool"
#endif
EOF
# Six sums, a copy of a communicator, a message to itself.
cat >"$scratch/program.c" <<'EOF'
#include "calls.h"
#ifndef SUM
#define SUM MPI_Allreduce
#endif
int main(int n, char **v)
{
	int one = 1, sum = 0, got = 0, size;
	MPI_Comm copy;
	MPI_Init(&n, &v);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < 5; i++)
		SUM(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	SUM(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
	MPI_Sendrecv(&sum, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
	MPI_Comm_free(&copy);
	printf("sum %s\n", sum == size && got == size ? "right" : "wrong");
	MPI_Finalize();
	return 0;
}
EOF
# A tool with a state that its MPI_Init makes; in MPI_Finalize it calls a function that it does not wrap.
cat >"$scratch/tool.c" <<'EOF'
#include "calls.h"
static long *sums;
int MPI_Init(int *n, char ***v) { int e = PMPI_Init(n, v); sums = calloc(1, sizeof *sums); return e; }
int MPI_Allreduce(const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c) { ++*sums; return PMPI_Allreduce(s, r, n, t, o, c); }
int MPI_Finalize(void)
{
	int rank;
	MPI_Barrier(MPI_COMM_WORLD);
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	fprintf(stderr, NAME " %d: %ld sums\n", rank, *sums);
	return PMPI_Finalize();
}
EOF
# Another one, of other functions.
cat >"$scratch/other.c" <<'EOF'
#include "calls.h"
static long copies, messages;
int MPI_Comm_dup(MPI_Comm c, MPI_Comm *d) { copies++; return PMPI_Comm_dup(c, d); }
int MPI_Sendrecv(const void *s, int ns, MPI_Datatype ts, int to, int st, void *r, int nr, MPI_Datatype tr, int from, int rt, MPI_Comm c, MPI_Status *status)
{
	messages++;
	return PMPI_Sendrecv(s, ns, ts, to, st, r, nr, tr, from, rt, c, status);
}
int MPI_Comm_free(MPI_Comm *c) { fprintf(stderr, "other: %ld copies, %ld messages\n", copies, messages); return PMPI_Comm_free(c); }
EOF
# One that looks for what is behind itself, as Darshan does.
cat >"$scratch/next.c" <<'EOF'
#define _GNU_SOURCE
#include "calls.h"
#include <dlfcn.h>
int MPI_Init(int *n, char ***v) { fprintf(stderr, "next: init\n"); return ((int (*)(int *, char ***))dlsym(RTLD_NEXT, "PMPI_Init"))(n, v); }
int MPI_Allreduce(const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
	fprintf(stderr, "next: sum\n");
	return ((__typeof__(&MPI_Allreduce))dlsym(RTLD_NEXT, "PMPI_Allreduce"))(s, r, n, t, o, c);
}
EOF
# An error handler that does not return, in a deep call; then calls by profiling names.
cat >"$scratch/jump.c" <<'EOF'
#include "calls.h"
static jmp_buf back;
static void jump(MPI_Comm *c, int *e, ...) { longjmp(back, 1); }
__attribute__((noinline)) static void deep(int n, int *x)
{
	volatile char room[512];
	room[0] = (char)n;
	if (n) deep(n - 1, x); else MPI_Bcast(x, 1, MPI_INT, 99, MPI_COMM_WORLD);
	room[1] = room[0];
}
int main(int n, char **v)
{
	int one = 1, sum = 0, size;
	MPI_Errhandler handler;
	MPI_Init(&n, &v);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_create_errhandler(jump, &handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	if (!setjmp(back)) deep(50, &one);
	for (int i = 0; i < 6; i++)
		PMPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("sum %s\n", sum == size ? "right" : "wrong");
	MPI_Finalize();
	return 0;
}
EOF

cd "$scratch" || exit 1
build() { "$mpicc" -g -w "$@" >"$scratch/log" 2>&1; }
build program.c -o plain && build -DSUM=PMPI_Allreduce program.c -o profiling && build jump.c -o jump &&
	for tool in tool other next; do build -shared -fPIC $tool.c -o lib$tool.so || break; done &&
	build -c tool.c -o tool.o && ar rc libstatic.a tool.o && build program.c -o static libstatic.a &&
	build program.c -o linked -Wl,--no-as-needed -L. -ltool -Wl,-rpath,"$scratch" &&
	build program.c -o linked_next -Wl,--no-as-needed -L. -lnext -Wl,-rpath,"$scratch"
result $? "programs and tools"
cd "$OLDPWD" || exit 1

# on_hosts VARIABLE=VALUE... COMMAND...: two ranks under corale-run, every call that Corale can run goes by it.
on_hosts()
{
	timeout -k 5 "$(busy_seconds 60)" "$MPIRUN" -n 2 env CORALE_DEBUG=info CORALE_MPI=host "$@" >"$scratch/log" 2>&1 </dev/null
}
# Both ranks have right sums; the door has counted this many of them on each, by one route or another, and this many barriers.
door_saw() # sums, barriers
{
	[ "$(grep -c "^sum right" "$scratch/log")" = 2 ] &&
		[ "$(counted MPI_Allreduce)" = $((2 * $1)) ] && [ "$(counted MPI_Barrier)" = $((2 * $2)) ]
}
counted() { sed -n "s/^corale: INFO .*: $1 .* [KMG]*B  *//p" "$scratch/log" | tr -d '()' | awk '{ n += $1 + $3 + $5 } END { print n + 0 }'; }
tool_saw() { [ "$(grep -c "^tool [01]: $1 sums" "$scratch/log")" = 2 ]; }

on_hosts "$run" --mpi "$scratch/plain" && door_saw 6 0
result $? "no tool"
on_hosts LD_PRELOAD="$scratch/libtool.so" "$run" --mpi "$scratch/plain" && door_saw 6 1 && tool_saw 6
result $? "a tool by LD_PRELOAD"
on_hosts "$run" --mpi "$scratch/linked" && door_saw 6 1 && tool_saw 6
result $? "a tool that is linked to the program"
on_hosts LD_PRELOAD="$(readlink -f "$door")" "$scratch/linked" && door_saw 6 1 && tool_saw 6
result $? "the same, the door in front of it"
on_hosts "$run" --mpi "$scratch/static" && door_saw 6 1 && tool_saw 6
result $? "a tool from an archive"
on_hosts LD_PRELOAD="$scratch/libtool.so:$scratch/libother.so" "$run" --mpi "$scratch/plain" && door_saw 6 1 && tool_saw 6 &&
	[ "$(grep -c '^other: 1 copies, 1 messages' "$scratch/log")" = 2 ] && [ "$(counted "MPI_Sendrecv and its kin")" = 2 ]
result $? "two tools"
on_hosts LD_PRELOAD="$scratch/libnext.so" "$run" --mpi "$scratch/plain" && door_saw 6 0 && [ "$(grep -c '^next: sum' "$scratch/log")" = 12 ]
result $? "a tool that looks for what is behind itself"
on_hosts "$run" --mpi "$scratch/linked_next" && door_saw 6 0 && [ "$(grep -c '^next: sum' "$scratch/log")" = 12 ]
result $? "the same, linked to the program"
on_hosts LD_PRELOAD="$(readlink -f "$door")" "$scratch/linked_next" && door_saw 6 0 && grep -q 'WARN.*libnext.so is linked to the program and calls MPI without' "$scratch/log"
result $? "the same behind the door: a line says that it is left out"
on_hosts "$run" --mpi "$scratch/profiling" && door_saw 6 0
result $? "a program that calls profiling names"
on_hosts "$run" --mpi "$scratch/jump" && door_saw 6 0
result $? "behind an error handler that has not returned the door sees calls"
on_hosts CORALE_MPI=off LD_PRELOAD="$scratch/libtool.so" "$run" --mpi "$scratch/plain" && [ "$(grep -c "^sum right" "$scratch/log")" = 2 ] && tool_saw 6 && [ "$(counted MPI_Allreduce)" = 0 ]
result $? "CORALE_MPI=off: the tool sees each call"
timeout -k 5 "$(busy_seconds 60)" "$MPIRUN" -n 2 env LD_PRELOAD="$scratch/libtool.so" "$run" --mpi "$scratch/plain" >"$scratch/log" 2>&1 </dev/null && [ "$(grep -c "^sum right" "$scratch/log")" = 2 ] && tool_saw 6
result $? "the default, without GPUs: the tool sees each call"
LD_PRELOAD=$scratch/libother.so "$run" --check --mpi "$scratch/linked" >"$scratch/log" 2>&1 &&
	grep -qE "^chain: +program > $scratch/libtool\.so > $scratch/libother\.so > .*libcorale_pmpi\.so > .*/lib(mpi|mpich)\.so\.[0-9]+$" "$scratch/log"
result $? "--check prints the chain"

# ---- Fortran: a tool wraps its names; one that wraps names of C alone sees what it sees without the door.
cat >"$scratch/sums.f90" <<'EOF'
program sums
  use mpi
  integer :: i, ierr, one(1), got(1)
  call MPI_Init(ierr)
  one = 1
  do i = 1, 6
    call MPI_Allreduce(one, got, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  if (got(1) == 2) print '(a)', 'sum right'
  call MPI_Finalize(ierr)
end program
EOF
cat >"$scratch/fortran_tool.c" <<'EOF'
#include <stdio.h>
extern void pmpi_allreduce_(void *, void *, int *, int *, int *, int *, int *);
void mpi_allreduce_(void *s, void *r, int *n, int *t, int *o, int *c, int *e) { fprintf(stderr, "tool: a sum\n"); pmpi_allreduce_(s, r, n, t, o, c, e); }
EOF
if (cd "$scratch" && "$(compiler mpifort)" -fallow-argument-mismatch -o sums sums.f90) >"$scratch/log" 2>&1; then
	build -shared -fPIC "$scratch/fortran_tool.c" -o "$scratch/libfortran_tool.so"
	on_hosts LD_PRELOAD="$scratch/libfortran_tool.so" "$run" --mpi "$scratch/sums" && door_saw 6 0 && [ "$(grep -c '^tool: a sum' "$scratch/log")" = 12 ]
	result $? "a tool of Fortran's names"
	timeout -k 5 "$(busy_seconds 60)" "$MPIRUN" -n 2 env LD_PRELOAD="$scratch/libtool.so" "$scratch/sums" >"$scratch/log" 2>&1 </dev/null
	seen=$(grep -oE '[0-9]+ sums' "$scratch/log" | head -n 1)
	on_hosts LD_PRELOAD="$scratch/libtool.so" "$run" --mpi "$scratch/sums" && [ "$(counted MPI_Allreduce)" = 12 ] && [ "$(grep -oE '[0-9]+ sums' "$scratch/log" | head -n 1)" = "$seen" ]
	result $? "a tool of C's names sees of Fortran what it sees without the door"
else
	skip "no compiler of MPI programs in Fortran" "tools and Fortran"
fi

# ---- Sanitizers

sanitized() # name, options
{
	local name=$1
	shift
	if ! build "$@" "$scratch/program.c" -o "$scratch/sanitized" || ! "$scratch/sanitized_alone" 2>/dev/null; then
		skip "no such sanitizer" "$name"
		return
	fi
	export ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=report_bugs=0
	if ! timeout -k 5 "$(busy_seconds 60)" "$MPIRUN" -n 2 "$scratch/sanitized" >"$scratch/log" 2>&1 </dev/null; then
		skip "MPI alone does not run with this sanitizer" "$name" # MPICH 4.0.2 and TSan
		return
	fi
	on_hosts "$run" --mpi "$scratch/sanitized" && door_saw 6 0
	result $? "$name"
	on_hosts LD_PRELOAD="$scratch/libtool.so" "$run" --mpi "$scratch/sanitized" && door_saw 6 1 && tool_saw 6
	result $? "$name, and a tool"
}
echo 'int main(void) { return 0; }' >"$scratch/alone.c"
for sanitizer in address undefined thread; do
	cc=$("$mpicc" -show | awk '{ print $1 }')
	$cc -fsanitize=$sanitizer "$scratch/alone.c" -o "$scratch/sanitized_alone" 2>/dev/null
	sanitized "-fsanitize=$sanitizer" -fsanitize=$sanitizer
done
sanitized "-static-libasan" -fsanitize=address -static-libasan
asan=$(readlink -f "$($cc -print-file-name=libasan.so)")
if [ -f "$asan" ]; then
	on_hosts LD_PRELOAD="$asan:$scratch/libtool.so" "$run" --mpi "$scratch/plain" && door_saw 6 1 && tool_saw 6
	result $? "a sanitizer's runtime by LD_PRELOAD"
else
	skip "no libasan" "a sanitizer's runtime by LD_PRELOAD"
fi
echo "1..$number"
