import argparse
import itertools

import torch
from gnn_batches_lib import GraphConv, molecules
from torch import nn


class MolNet(nn.Module):
    def __init__(self, atoms=6, d=12, layers=2):
        super().__init__()
        self.emb = nn.Embedding(atoms, d)
        self.convs = nn.ModuleList(GraphConv(d) for _ in range(layers))
        self.out = nn.Linear(d, 1)

    def forward(self, z, adj):
        h = self.emb(z)
        for conv in self.convs:
            h = conv(h, adj)
        return self.out(h.mean(1)).squeeze(-1)


class Engine:
    def __init__(self, args):
        self.args = args
        self.model = MolNet()
        self.optim = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        self.update_norms = []
        self.clipped = 0

    def loss_fn(self, batch):
        z, adj, y = batch
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.model(z, adj)
            return nn.functional.huber_loss(pred.float(), y)

    def run_window(self, batches):
        total = 0.0
        for batch in batches:
            loss = self.loss_fn(batch)
            self.scaler.scale(loss / len(batches)).backward()
            total += loss.item()
        self.scaler.unscale_(self.optim)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_norm).item()
        self.clipped += norm > self.args.max_norm
        self.update_norms.append(norm)
        self.scaler.step(self.optim)
        self.scaler.update()
        self.optim.zero_grad()
        return total / len(batches)

    def fit(self):
        for epoch in range(self.args.epochs):
            stream = molecules(self.args.per_epoch, self.args.bs, seed=epoch)
            while window := list(itertools.islice(stream, self.args.virtual)):
                loss = self.run_window(window)
            print(f"epoch {epoch}: {loss:.4f} |g| {self.update_norms[-1]:.3f}")
        return loss


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--per-epoch", type=int, default=18)
    p.add_argument("--virtual", type=int, default=6, help="micro-batches per optimizer step")
    p.add_argument("--bs", type=int, default=6)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--max-norm", type=float, default=4.0)
    return p.parse_args()


if __name__ == "__main__":
    args = parse()
    torch.manual_seed(0)
    eng = Engine(args)
    final = eng.fit()
    print(
        f"RESULT updates={len(eng.update_norms)} clipped={eng.clipped} first_norm={eng.update_norms[0]:.4f} loss={final:.4f}",
    )
