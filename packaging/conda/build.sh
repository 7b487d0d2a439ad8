#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Called by conda build with PREFIX and CPU_COUNT; where there is nvcc the library is built for GPUs, too.
set -eu
autoreconf -fi
mkdir -p build-conda
cd build-conda
cuda=--without-cuda
! command -v nvcc >/dev/null || cuda=--with-cuda
../configure --prefix="$PREFIX" --without-cmocka --disable-static $cuda
make -j"${CPU_COUNT:-1}"
make install
