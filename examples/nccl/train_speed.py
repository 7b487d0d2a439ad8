#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What communication adds to a training step: a GPT by DDP or FSDP2 in bfloat16, on random tokens, a process a GPU.

  torchrun --nproc-per-node 4 train_speed.py                  on the NCCL that PyTorch brings
  corale-run torchrun --nproc-per-node 4 train_speed.py       on Corale's libnccl.so.2
  NCCL_MAX_CTAS=16 torchrun ... train_speed.py                with at most 16 blocks a call

A line a model: the median step, the same step without communication (DDP: no_sync; FSDP2: a mesh of this rank alone),
and the difference, which is the communication that the step's products do not hide. The slowest rank's times, in ms.
Needs PyTorch with CUDA. Libraries are compared on one machine, by turns: GPUs differ by a few percent.
"""
import argparse
import contextlib
import os
import statistics

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

TOKENS, VOCABULARY = 1024, 16384
#          name: layers, width, samples of a rank, MB of a DDP bucket (None: FSDP2)
MODELS = {"ddp-1024": (24, 1024, 8, 25), "ddp-2048": (24, 2048, 2, 256), "fsdp2-2048": (16, 2048, 2, None)}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.heads = width // 128
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        heads = self.qkv(self.norm_attention(x)).unflatten(-1, (3, self.heads, 128)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm_mlp(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(TOKENS, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.roll(-1, 1).flatten())


def build(name, device, alone):
    """The model; alone: FSDP2 that communicates with no other rank."""
    layers, width, _, bucket = MODELS[name]
    torch.manual_seed(1)
    model = Gpt(layers, width).to(device)
    if bucket:
        return DistributedDataParallel(model.bfloat16(), bucket_cap_mb=bucket, gradient_as_bucket_view=True)
    ranks = dist.get_world_size()
    meshes = init_device_mesh("cuda", (1, ranks) if not alone else (ranks, 1), mesh_dim_names=("other", "shards"))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for part in [*model.blocks, model]:
        fully_shard(part, mesh=meshes["shards"], mp_policy=policy)
    return model


def step_ms(model, tokens, alone):
    """Forward and backward. No optimizer, which takes the same either way."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    quiet = alone and isinstance(model, DistributedDataParallel)
    dist.barrier()
    begin.record()
    with model.no_sync() if quiet else contextlib.nullcontext():
        model(tokens).backward()
    end.record()
    torch.cuda.synchronize()
    model.zero_grad(set_to_none=not isinstance(model, DistributedDataParallel))
    return begin.elapsed_time(end)


def measure(name, device, steps):
    """The median step with communication and without, by turns, as GPUs change their clocks: of the slowest rank."""
    tokens = torch.randint(VOCABULARY, (MODELS[name][2], TOKENS), device=device)
    model = build(name, device, False)
    own = model if MODELS[name][3] else build(name, device, True)
    times = [(step_ms(model, tokens, False), step_ms(own, tokens, True)) for _ in range(steps + 5)][5:]
    medians = torch.tensor([statistics.median(part) for part in zip(*times)], device=device)
    dist.all_reduce(medians, dist.ReduceOp.MAX)
    return medians.tolist()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--version", action="version", version=f"an example of Corale's, for PyTorch {torch.__version__}")
    options.add_argument("--models", default=",".join(MODELS), help="of " + ", ".join(MODELS))
    options.add_argument("--steps", type=int, default=40)
    args = options.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    for name in args.models.split(","):
        step, alone = measure(name, device, args.steps)
        if dist.get_rank() == 0:
            print(f"{name} ranks {dist.get_world_size()} step {step:.2f} without communication {alone:.2f} "
                  f"exposed {step - alone:.2f}", flush=True)
        torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
