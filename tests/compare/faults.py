"""A task that fails in a way of its own for each number of microbatches: the only thing that a task learns of its candidate."""

import ctypes
import os
import resource
import signal
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

from truestep.tasks import Splits, Task

BATCH = 60
HEALTHY_ATTEMPTS = 5


def segfault(loss):
    ctypes.string_at(0)


def killed(loss):
    os.kill(os.getpid(), signal.SIGKILL)


def exhausted(loss):
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + 2**28, resource.RLIM_INFINITY))
    kept = []
    while True:
        kept.append(torch.zeros(2**24))


def hung(loss):
    time.sleep(3600)


def gone(loss):
    print("I leave")
    os._exit(7)


def diverging(loss):
    return loss * float("nan")


def undefined(loss):
    return loss + (loss * 0).sqrt()


FAULTS = {2: segfault, 3: killed, 4: exhausted, 5: hung, 6: gone, 10: diverging, 12: undefined}


class Faults(Task):
    """A line through numbers of two classes."""

    name = "faults"
    batch = BATCH
    updates = 70
    evaluate_every = 2 * BATCH
    target = 0.0001
    quality_name = "squared error"
    quality_better = "lower"

    def splits(self):
        x = torch.linspace(-1, 1, 3 * BATCH).unsqueeze(1)
        parts = [TensorDataset(x[i::3], 2 * x[i::3]) for i in range(3)]
        return Splits(train=parts[0], validation=parts[1], test=parts[2])

    def model(self):
        self.seen = 0
        return nn.Linear(1, 1)

    def optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=0.5)

    def loss(self, model, microbatch):
        rows, targets = microbatch
        loss = nn.functional.mse_loss(model(rows).float(), targets)
        fault = FAULTS.get(BATCH // len(rows))
        if self.seen >= HEALTHY_ATTEMPTS * BATCH and fault is not None:
            loss = fault(loss)
        self.seen += len(rows)
        return loss

    def quality(self, model, dataset):
        return nn.functional.mse_loss(model(dataset.tensors[0]), dataset.tensors[1]).item()
