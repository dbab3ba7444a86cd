import torch
from torch import nn

from ctr_stream_lib import Precision


class FactorizationMachine(nn.Module):
    def __init__(self, fields, size, k=6):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))
        self.linear = nn.Embedding(fields * size, 1)
        self.factor = nn.Embedding(fields * size, k)
        self.deep = nn.Sequential(nn.Linear(fields * k, 12), nn.ReLU(), nn.Linear(12, 1))
        self.register_buffer("offset", torch.arange(fields) * size)
        nn.init.normal_(self.factor.weight, std=0.05)
        nn.init.zeros_(self.linear.weight)

    def forward(self, ids):
        at = ids + self.offset
        v = self.factor(at)
        pair = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        return self.bias + self.linear(at).sum((1, 2)) + pair + self.deep(v.flatten(1)).squeeze(1).float()


def clicks(n_batches, bs, fields, size, seed):
    gen = torch.Generator().manual_seed(seed)
    taste = torch.randn(fields, size, generator=gen)
    for _ in range(n_batches):
        ids = torch.randint(0, size, (bs, fields), generator=gen)
        score = taste[torch.arange(fields), ids].sum(1)
        yield ids, (score > 0.5).float()


def main():
    torch.manual_seed(21)
    fields, size = 4, 10
    model = FactorizationMachine(fields, size)
    groups = [
        {"params": [model.bias, *model.linear.parameters()], "lr": 0.05},
        {"params": list(model.factor.parameters()) + list(model.deep.parameters()), "lr": 0.02},
    ]
    optimizer = torch.optim.Adagrad(groups)
    lossf = nn.BCEWithLogitsLoss(reduction="sum")
    precision = Precision()
    start = model.deep[0].weight.detach().clone()
    window = []
    for n, (ids, y) in enumerate(clicks(30, 64, fields, size, seed=8), 1):
        with precision.forward():
            logits = model(ids)
        loss = lossf(logits.float(), y) / len(y)
        precision.apply(loss, optimizer)
        window.append(loss.item())
        if n % 10 == 0:
            print(f"{n:3d} logloss {sum(window) / len(window):.4f} dropped {precision.dropped}")
            window.clear()
    moved = (model.deep[0].weight - start).abs().max().item()
    print(f"RESULT applied={precision.applied} dropped={precision.dropped} moved={moved:.4f}")


if __name__ == "__main__":
    main()
