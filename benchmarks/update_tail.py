"""Cost of the tail of an update: everything between the last backward and the next zero. Rivals' text is fixed here.

usage: update_tail.py PARAMETERS TENSORS [ROUNDS]      (for example: 30000000 10)
`bare` is the fused AdamW pass alone: the floor. `scaler` is unscale_ + clip_grad_norm_ + step + update of torch.amp.GradScaler with fused
AdamW, `scaler foreach` with the unfused one, `bare foreach` its floor. Report (contender - bare) / bare: the cost above the floor.
"""

import pathlib
import statistics
import sys
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from benchmarks.our_tail import Tail

torch.set_num_threads(1)
COUNT, TENSORS = int(sys.argv[1]), int(sys.argv[2])
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 9
SCALE = 1024.0
torch.manual_seed(0)
GRADS = [torch.randn(COUNT // TENSORS) * SCALE * 1e-3 for _ in range(TENSORS)]


class Side:
    def __init__(self, fused: bool):
        torch.manual_seed(1)
        self.params = [nn.Parameter(torch.randn(COUNT // TENSORS)) for _ in range(TENSORS)]
        for p, g in zip(self.params, GRADS):
            p.grad = g.clone()
        self.optimizer = torch.optim.AdamW(self.params, lr=1e-3, fused=fused, foreach=None if fused else True)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=10**9)
        self.scaler.scale(torch.tensor(1.0))

    def reset(self):
        for p, g in zip(self.params, GRADS):
            p.grad.copy_(g)

    def bare(self):
        self.optimizer.step()

    def scaler_tail(self):
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.params, 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()


class Ours(Side):
    def __init__(self, fused: bool):
        super().__init__(fused)
        self.tail = Tail(self.params, self.optimizer, GRADS, scale=SCALE)

    def reset(self):
        self.tail.open()

    def truestep_tail(self):
        self.tail.close()


def main():
    sides = {"bare": (Side(True), "bare"), "scaler": (Side(True), "scaler_tail"), "truestep": (Ours(True), "truestep_tail"), "bare foreach": (Side(False), "bare"), "truestep foreach": (Ours(False), "truestep_tail"), "scaler foreach": (Side(False), "scaler_tail")}
    ms = {name: [] for name in sides}
    for _ in range(ROUNDS + 2):
        for name, (side, method) in sides.items():
            side.reset()
            start = time.perf_counter()
            getattr(side, method)()
            ms[name].append((time.perf_counter() - start) * 1e3)
    for name, row in ms.items():
        floor = "bare foreach" if name.endswith("foreach") else "bare"
        above = [(a - b) / b for a, b in zip(row[2:], ms[floor][2:])]
        print(f"{name:16s} {statistics.median(row[2:]):9.3f} ms   above the floor {statistics.median(above):+.2f}")


if __name__ == "__main__":
    main()
