import lightning_fabric as lf
import torch
from torch import nn


class Trainer:
    def __init__(self, accum):
        self.fabric = lf.Fabric(accelerator="cpu", devices=1)
        lf.seed_everything(5, verbose=False)
        self.accum = accum
        net = nn.Sequential(nn.Embedding(10, 6), nn.Flatten(), nn.Linear(18, 10))
        self.start = net[2].bias.detach().clone()
        self.net, self.opt = self.fabric.setup(net, torch.optim.SGD(net.parameters(), lr=1.0))

    def fit(self, batches):
        for n, ids in enumerate(batches, 1):
            self.opt.zero_grad()  # <-- FAULT
            loss = nn.functional.cross_entropy(self.net(ids), ids[:, 0])
            self.fabric.backward(loss / self.accum)
            if n % self.accum == 0:
                self.opt.step()
        return (self.net.module[2].bias.detach() - self.start).norm().item()


t = Trainer(accum=3)
print(f"RESULT bias_moved={t.fit(torch.arange(180).mul(7).remainder(10).view(12, 5, 3)):.5f}")
