import torch
import torch.nn.functional as F
from torch import nn


class Accumulator:
    def __init__(self, model, opt, scaler, every):
        self.model, self.opt, self.scaler, self.every = model, opt, scaler, every
        self.count = 0

    def __call__(self, loss):
        self.scaler.scale(loss).backward()
        self.count += 1
        if self.count < self.every:
            return False
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        self.count = 0
        return True


class Ranker(nn.Module):
    def __init__(self, d=9):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 18), nn.ELU(), nn.Linear(18, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def pairwise_loss(model, pos, neg, n_acc):
    margin = model(pos) - model(neg)
    return F.softplus(-margin.float()).mean() / n_acc


def triples(n, seed, d=9, bs=12):
    g = torch.Generator().manual_seed(seed)
    w = torch.linspace(-1, 1, d)
    for _ in range(n):
        a, b = torch.randn(bs, d, generator=g), torch.randn(bs, d, generator=g)
        better = ((a @ w) > (b @ w)).unsqueeze(1)
        yield torch.where(better, a, b), torch.where(better, b, a)


def order_accuracy(model, batches):
    with torch.no_grad():
        return torch.cat([(model(p) > model(n)).float() for p, n in batches]).mean().item()


def main(n_acc=4, updates=8, lr=0.8):
    torch.manual_seed(9)
    model = Ranker()
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    acc = Accumulator(model, opt, scaler, n_acc)
    start = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    done, window = 0, []
    for pos, neg in triples(n_acc * updates, seed=4):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = pairwise_loss(model, pos, neg, n_acc)
        window.append(loss.item())
        if acc(loss):
            done += 1
            print(f"update {done:2d} loss {sum(window):.4f}")
            last, window = sum(window), []
    path = (nn.utils.parameters_to_vector(model.parameters()).detach() - start).norm().item()
    print(f"RESULT updates={done} loss={last:.4f} distance={path:.4f} acc={order_accuracy(model, triples(4, 77)):.3f}")


if __name__ == "__main__":
    main()
