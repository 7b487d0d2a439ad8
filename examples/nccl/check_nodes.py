#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether ranks of several hosts reach each other by NCCL's interface: each sums its number with all others', and prints its host and the time. Needs no
PyTorch, and with CORALE_NCCL_DEVICE=host no GPU; without it, host memory is no memory for NCCL.

  CORALE_NCCL_DEVICE=host corale-run torchrun ... check_nodes.py      README.md has the commands of each launcher

Rank, number of ranks and the place where they meet come from torchrun (RANK, WORLD_SIZE, MASTER_ADDR), Open MPI, MPICH or Slurm; where the launcher
says no place, from MASTER_ADDR, the address of rank 0's host.
"""
import ctypes
import os
import socket
import sys
import time

INT64, SUM = 4, 0


def of_launcher(*names):
    for name in names:
        if name in os.environ:
            return os.environ[name]
    raise SystemExit(f"none of {', '.join(names)} is set: start this program by torchrun, mpirun or srun, and set MASTER_ADDR")


def main():
    if sys.argv[1:] in (["--help"], ["--version"]):
        print(__doc__ if sys.argv[1] == "--help" else "check_nodes, an example of Corale's for the NCCL that is found")
        return
    rank = int(of_launcher("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"))
    ranks = int(of_launcher("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"))
    port = int(os.environ.get("MASTER_PORT", "29500")) + 1  # torchrun itself listens at MASTER_PORT
    os.environ.setdefault("NCCL_COMM_ID", f"{socket.gethostbyname(of_launcher('MASTER_ADDR'))}:{port}")
    nccl = ctypes.CDLL("libnccl.so.2")

    class Id(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_char * 128)]

    def check(result):
        if result:
            nccl.ncclGetLastError.restype = ctypes.c_char_p
            sys.exit(f"rank {rank} on {socket.gethostname()}: {nccl.ncclGetLastError(None).decode()}")

    made, comm = Id(), ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
    check(nccl.ncclGetUniqueId(ctypes.byref(made)))  # of NCCL_COMM_ID all ranks make the same
    start = time.monotonic()
    check(nccl.ncclCommInitRank(ctypes.byref(comm), ranks, made, rank))
    seconds = time.monotonic() - start
    mine, total = ctypes.c_int64(rank), ctypes.c_int64(-1)
    check(nccl.ncclAllReduce(ctypes.byref(mine), ctypes.byref(total), ctypes.c_size_t(1), INT64, SUM, comm, None))
    check(nccl.ncclCommDestroy(comm))
    wanted = ranks * (ranks - 1) // 2
    print(f"rank {rank} of {ranks} on {socket.gethostname()}: sum {total.value}, expected {wanted}, made in {seconds * 1000:.0f} ms", flush=True)
    return total.value != wanted


if __name__ == "__main__":
    raise SystemExit(main())
