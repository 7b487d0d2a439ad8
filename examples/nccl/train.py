#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training by PyTorch over its NCCL backend. Nothing in this file knows of Corale.

  torchrun --nproc-per-node 2 train.py                  on the NCCL that PyTorch brings
  corale-run torchrun --nproc-per-node 2 train.py       on Corale's libnccl.so.2
  torchrun --nproc-per-node 2 train.py --backend gloo   through host memory, for comparison

Needs PyTorch only. With more ranks than GPUs several ranks share a GPU, which Corale allows and NCCL refuses.
"""
import argparse
import ctypes
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FEATURES, HIDDEN, CLASSES, BATCH, STEPS = 256, 1024, 16, 512, 100


def loaded_nccl():
    """The library that PyTorch's calls of NCCL reach, by its path: several may be in the process."""
    library = ctypes.CDLL("libnccl.so.2")  # by this name the loader gives PyTorch the same one
    about = (ctypes.c_char_p * 4)()  # Dl_info: the first word is the path
    ctypes.CDLL(None).dladdr(library.ncclAllReduce, about)
    return about[0].decode()


def batch_of(step, rank, teacher):
    """Samples of this rank's own. The labels come from a fixed linear map, which the model has to find."""
    samples = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(1000 * step + rank))
    return samples, (samples @ teacher).argmax(dim=1)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--version", action="version", version=f"an example of Corale's, for PyTorch {torch.__version__}")
    options.add_argument("--backend", default="nccl")
    args = options.parse_args()

    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(args.backend)  # torchrun has set the addresses, the rank and the number of ranks
    rank, ranks = dist.get_rank(), dist.get_world_size()
    version = ".".join(map(str, torch.cuda.nccl.version()))
    print(f"rank {rank} of {ranks} on {device}: {args.backend}, PyTorch {torch.__version__} for NCCL {version}", flush=True)
    if rank == 0 and args.backend == "nccl":
        print(f"libnccl.so.2 is {loaded_nccl()}", flush=True)

    torch.manual_seed(0)
    teacher = torch.randn(FEATURES, CLASSES)
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
    model = DistributedDataParallel(model.to(device))  # broadcasts rank 0's parameters
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for step in range(STEPS):
        samples, labels = (tensor.to(device) for tensor in batch_of(step, rank, teacher))
        loss = torch.nn.functional.cross_entropy(model(samples), labels)
        optimizer.zero_grad()
        loss.backward()  # DDP averages the gradients meanwhile, by all_reduce
        optimizer.step()
        if step % 10 == 0 or step == STEPS - 1:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step:4d}  loss {mean.item() / ranks:.9f}", flush=True)

    # All ranks took the same steps, so their parameters must be equal bit for bit.
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    root = mine.clone()
    dist.broadcast(root, src=0)
    differing = (mine != root).sum().reshape(1)
    dist.all_reduce(differing)
    if rank == 0:
        print(f"parameters that differ between ranks: {differing.item()}")
    dist.destroy_process_group()
    return 1 if differing.item() else 0


if __name__ == "__main__":
    raise SystemExit(main())
