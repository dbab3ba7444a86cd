import torch
from accelerate import Accelerator
from torch import nn


class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        a = torch.randn(5, generator=g)
        return a, a.flip(0) * 3


def train(max_norm=0.5):
    torch.manual_seed(1)
    acc = Accelerator(cpu=True, gradient_accumulation_steps=3)
    net = nn.Linear(5, 5)
    start = net.weight.detach().clone()
    opt = torch.optim.SGD(net.parameters(), lr=0.5)
    net, opt, dl = acc.prepare(net, opt, torch.utils.data.DataLoader(Pairs(), batch_size=4))
    for a, b in dl:
        with acc.accumulate(net):
            acc.backward(nn.functional.mse_loss(net(a), b))
            nn.utils.clip_grad_norm_(net.parameters(), max_norm)  # <-- FAULT
            opt.step()
            opt.zero_grad()
    w = acc.unwrap_model(net).weight.detach()
    return (w - start).norm().item()


if __name__ == "__main__":
    print(f"RESULT moved={train():.5f}")
