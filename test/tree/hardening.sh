#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The shared libraries are built with stack guards, checked string functions, and tables of the dynamic linker that nobody can write
# later. $hardening and $sanitizer are what configure found. TAP.
. "$top_srcdir/test/run/tap.sh"
has() { printf '%s\n' "$1" | grep -Eq "$2"; }

check() # library
{
	file=$top_builddir/.libs/$1.so
	segments=$(readelf -lW "$file") dynamic=$(readelf -dW "$file")
	has "$segments" 'GNU_RELRO'
	result $? "$1: tables are read-only after relocation"
	has "$dynamic" 'BIND_NOW|\(FLAGS_1\).* NOW( |$)'
	result $? "$1: functions are bound at start"
}

check_code() # library
{
	symbols=$(readelf -W --dyn-syms "$top_builddir/.libs/$1.so")
	has "$symbols" 'UND __stack_chk_fail'
	result $? "$1: stacks have guards"
	case " $hardening " in *" fortify "*) ;; *) return ;; esac
	has "$symbols" 'UND __[a-z]+_chk'
	result $? "$1: string functions are checked"
}

if [ "$sanitizer" != none ]; then
	echo "1..0 # SKIP a sanitizer's build"
	exit 0
fi
if [ ! -e "$top_builddir/.libs/libcorale.so" ]; then
	echo "1..0 # SKIP no shared library in this build"
	exit 0
fi
check libcorale
check_code libcorale
[ -e "$top_builddir/.libs/libcorale_mpi.so" ] && check libcorale_mpi
echo "1..$number"
