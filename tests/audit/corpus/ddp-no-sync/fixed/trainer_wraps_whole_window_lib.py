import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class WindowTrainer:
    def __init__(self, net, lr):
        self.net = net
        self.ddp = DistributedDataParallel(net)
        self.optimizer = torch.optim.RMSprop(net.parameters(), lr=lr)
        self.criterion = nn.HuberLoss()

    def forward_backward(self, batch, n):
        inputs, target = batch
        loss = self.criterion(self.ddp(inputs), target) / n
        loss.backward()
        return loss.item()

    def update(self, window):
        self.optimizer.zero_grad()
        total = 0.0
        with self.ddp.no_sync():
            for batch in window[:-1]:
                total += self.forward_backward(batch, len(window))
        total += self.forward_backward(window[-1], len(window))
        nn.utils.clip_grad_value_(self.net.parameters(), 0.5)
        self.optimizer.step()
        return total


def spread(net):
    w = nn.utils.parameters_to_vector(net.parameters()).detach()
    hi, lo = w.clone(), w.clone()
    dist.all_reduce(hi, op=dist.ReduceOp.MAX)
    dist.all_reduce(lo, op=dist.ReduceOp.MIN)
    return (hi - lo).max().item()
