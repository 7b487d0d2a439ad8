#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's memory under calls that read other ranks' buffers where they lie: tensors made and freed at random, a cache that is emptied, expandable
segments, two streams, replayed graphs, a GPU that is nearly full. Every element of every result is checked. TAP, by rank 0; a failure ends with status 1.

  corale-run torchrun --nproc-per-node 2 test/gpus/torch_memory.py --seconds 600
  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True corale-run torchrun --nproc-per-node 2 test/gpus/torch_memory.py
  corale-run torchrun --nproc-per-node 2 test/gpus/torch_memory.py --leave 5        with 5 % of the GPU's memory left over
  torchrun --nproc-per-node 2 test/gpus/torch_memory.py --cpu                       the same by gloo, to try this file without a GPU

Needs PyTorch and a GPU for each rank, or CUDA MPS.
"""
import argparse
import os
import random
import sys
import time

import torch
import torch.distributed as dist

MB = 1 << 20
MOST_ELEMENTS = 300 * MB // 4
MOST_ALIVE = 8


class World:
    """This rank, its device, and the group that is tested."""

    def __init__(self, cpu):
        dist.init_process_group("gloo" if cpu else "nccl")
        self.rank, self.ranks, self.cpu = dist.get_rank(), dist.get_world_size(), cpu
        if not cpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        self.device = torch.device("cpu") if cpu else torch.device("cuda", torch.cuda.current_device())
        self.failed, self.number = False, 0

    def numbers(self, rank, seed, count):
        """A rank's input: whole numbers, whose sums are exact."""
        generator = torch.Generator(device=self.device).manual_seed(seed * self.ranks + rank)
        return torch.randint(0, 1000, (count,), generator=generator, device=self.device, dtype=torch.int32).float()

    def poisoned(self, count):
        return torch.full((count,), -1.0, device=self.device)

    def synchronize(self):
        if not self.cpu:
            torch.cuda.synchronize()

    def report(self, name, good, why=""):
        """All ranks together: one line of TAP."""
        word = torch.tensor([1.0 if good else 0.0], device=self.device)
        dist.all_reduce(word, op=dist.ReduceOp.MIN)
        self.number += 1
        if not good:
            print(f"# rank {self.rank}: {why or 'wrong elements'}", flush=True)
        if self.rank == 0:
            print(f"{'ok' if word.item() else 'not ok'} {self.number} - {name}", flush=True)
        self.failed |= not word.item()


def all_reduce(w, seed, count):
    got = w.numbers(w.rank, seed, count)
    dist.all_reduce(got)
    return got, lambda: sum(w.numbers(r, seed, count) for r in range(w.ranks))


def broadcast(w, seed, count):
    root = seed % w.ranks
    got = w.numbers(root, seed, count) if w.rank == root else w.poisoned(count)
    dist.broadcast(got, root)
    return got, lambda: w.numbers(root, seed, count)


def all_gather(w, seed, count):
    each = count // w.ranks + 1
    got = w.poisoned(each * w.ranks)
    dist.all_gather_into_tensor(got, w.numbers(w.rank, seed, each))
    return got, lambda: torch.cat([w.numbers(r, seed, each) for r in range(w.ranks)])


def reduce_scatter(w, seed, count):
    each = count // w.ranks + 1
    got = w.poisoned(each)
    dist.reduce_scatter_tensor(got, w.numbers(w.rank, seed, each * w.ranks))
    return got, lambda: sum(w.numbers(r, seed, each * w.ranks)[w.rank * each : (w.rank + 1) * each] for r in range(w.ranks))


def all_to_all(w, seed, count):
    each = count // w.ranks + 1
    got = w.poisoned(each * w.ranks)
    dist.all_to_all_single(got, w.numbers(w.rank, seed, each * w.ranks))
    return got, lambda: torch.cat([w.numbers(r, seed, each * w.ranks)[w.rank * each : (w.rank + 1) * each] for r in range(w.ranks)])


def send_on(w, seed, count):
    """To the next rank, from the one before."""
    before, behind = (w.rank - 1) % w.ranks, (w.rank + 1) % w.ranks
    got, mine = w.poisoned(count), w.numbers(w.rank, seed, count)
    for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, behind), dist.P2POp(dist.irecv, got, before)]):
        request.wait()
    return got, lambda: w.numbers(before, seed, count)


def calls_of(w):
    return [all_reduce, broadcast] if w.cpu else [all_reduce, broadcast, all_gather, reduce_scatter, all_to_all, send_on]


def random_tensors(w, seconds):
    """Which calls, and of how many bytes, is one random sequence for all ranks; which tensors are freed when is each rank's own."""
    shared, own, alive = random.Random(1), random.Random(100 + w.rank), []
    calls, end, n = calls_of(w), time.monotonic() + seconds, 0
    goes_on = torch.ones(1)
    while goes_on.item():
        count = shared.randrange(MB // 4, MOST_ELEMENTS // (20 if w.cpu else 1))
        call = shared.choice(calls)
        got, expected = call(w, n, count)
        if not torch.equal(got, expected()):
            return f"call {n}, {call.__name__} of {4 * count} bytes: wrong elements"
        alive.append(got)
        del got, expected
        while alive and (len(alive) > MOST_ALIVE or own.random() < 0.4):
            alive.pop(own.randrange(len(alive)))
        if n % 16 == 15 and not w.cpu:
            torch.cuda.empty_cache()
        n += 1
        if n % 8 == 0:  # rank 0's clock is all ranks'
            goes_on = torch.tensor([float(time.monotonic() < end)], device=w.device)
            dist.broadcast(goes_on, 0)
    if w.rank == 0:
        print(f"# {n} calls", flush=True)
    return None


def two_streams(w):
    """All-gathers and reduce-scatters of one group on streams of their own, as FSDP has them."""
    streams, results = [torch.cuda.Stream() for _ in range(2)], []
    w.synchronize()
    for n in range(20):
        for stream, call in zip(streams, (all_gather, reduce_scatter)):
            with torch.cuda.stream(stream):
                results.append(call(w, n, 4 * MB))
    w.synchronize()
    return all(torch.equal(got, expected()) for got, expected in results)


def graphs(w):
    """A graph goes on to use the buffers that it was captured with, whatever else was freed."""
    static, other = w.poisoned(16 * MB), [w.poisoned(8 * MB) for _ in range(4)]
    for tensor in other:
        dist.all_reduce(tensor)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        dist.all_reduce(static)
    w.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        dist.all_reduce(static)
    del other
    torch.cuda.empty_cache()
    for n in range(10):
        static.copy_(w.numbers(w.rank, n, static.numel()))
        graph.replay()
        w.synchronize()
        if not torch.equal(static, sum(w.numbers(r, n, static.numel()) for r in range(w.ranks))):
            return False
        dist.all_reduce(w.poisoned((1 + n) * MB))
    return True


def emptied_cache(w):
    """What the cache gives back can be allocated at once, though peers had it mapped."""
    for n in range(4):
        tensors = [w.poisoned(MOST_ELEMENTS // 4) for _ in range(6)]
        for _ in range(4):
            for tensor in tensors:
                dist.all_reduce(tensor)
        w.synchronize()
        del tensors, tensor
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        big = torch.empty(int(free * 0.9), dtype=torch.uint8, device=w.device)
        del big
        torch.cuda.empty_cache()
    return True


def memory_as_before(w):
    """After many allocations that peers have read, the GPU has as much free memory as before, within a second."""
    dist.all_reduce(w.poisoned(MB))
    w.synchronize()
    torch.cuda.empty_cache()
    before, _ = torch.cuda.mem_get_info()
    for n in range(1000):
        tensor = w.poisoned((4 + n % 7) * MB)
        for _ in range(3 if n % 50 == 0 else 1):
            dist.all_reduce(tensor)
        del tensor
        if n % 5 == 0:
            torch.cuda.empty_cache()
    w.synchronize()
    torch.cuda.empty_cache()
    end = time.monotonic() + 1
    while torch.cuda.mem_get_info()[0] < before - 64 * MB and time.monotonic() < end:
        time.sleep(0.05)
    return torch.cuda.mem_get_info()[0] >= before - 64 * MB


def like_gloo(w):
    """Sums of two ranks have one order: the bits are those of another library."""
    gloo = dist.new_group(backend="gloo")
    for dtype in (torch.float32, torch.float64, torch.float16):
        theirs = torch.randn(3 * MB, generator=torch.Generator().manual_seed(w.rank)).to(dtype)
        ours = theirs.to(w.device, copy=True)
        dist.all_reduce(ours)
        dist.all_reduce(theirs, group=gloo)
        if w.ranks == 2 and not torch.equal(ours.cpu(), theirs):
            return False
    return True


def guarded(case, *arguments):
    """A case's answer as whether it is good, and why not."""
    try:
        answer = case(*arguments)
    except RuntimeError as error:
        return False, str(error).split("\n")[0]
    return (answer is None or answer is True), answer if isinstance(answer, str) else ""


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=20, help="of random tensors")
    options.add_argument("--leave", type=float, default=0, help="percent of the GPU's memory that a ballast leaves over; 0: no ballast")
    options.add_argument("--cpu", action="store_true")
    args = options.parse_args()
    w = World(args.cpu or not torch.cuda.is_available())
    if w.rank == 0:
        print(f"# PyTorch {torch.__version__}, {w.ranks} ranks, {w.device.type}", flush=True)
    w.report("sums as gloo's", *guarded(like_gloo, w))
    ballast = None
    if args.leave and not w.cpu:
        free, total = torch.cuda.mem_get_info()
        ballast = torch.empty(max(0, int(free - total * args.leave / 100)), dtype=torch.uint8, device=w.device)
    w.report("random tensors", *guarded(random_tensors, w, args.seconds))
    if not w.cpu:
        for name, case in (("two streams", two_streams), ("graphs after other memory was freed", graphs),
                           ("memory of an emptied cache", emptied_cache), ("memory as before", memory_as_before)):
            w.report(name, *guarded(case, w))
    del ballast
    if w.rank == 0:
        print(f"1..{w.number}", flush=True)
    dist.destroy_process_group()
    return 1 if w.failed else 0


if __name__ == "__main__":
    sys.exit(main())
