import torch
from torch import nn


class MessageLayer(nn.Module):
    def __init__(self, dim, edge_dim):
        super().__init__()
        self.edge = nn.Linear(2 * dim + edge_dim, dim)
        self.node = nn.GRUCell(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, src, dst, e):
        m = torch.relu(self.edge(torch.cat([h[src], h[dst], e], -1)))
        agg = m.new_zeros(h.shape[0], m.shape[1])
        agg.index_add_(0, dst, m)
        with torch.autocast("cpu", enabled=False):
            return self.norm(h + self.node(agg.float(), h))


class Net(nn.Module):
    def __init__(self, dim=10, edge_dim=2, layers=2):
        super().__init__()
        self.inp = nn.Embedding(5, dim)
        self.layers = nn.ModuleList(MessageLayer(dim, edge_dim) for _ in range(layers))
        self.read = nn.Linear(dim, 1)

    def forward(self, z, src, dst, e, batch, n_graphs):
        h = self.inp(z)
        for layer in self.layers:
            h = layer(h, src, dst, e)
        out = self.read(h).float().squeeze(-1)
        return torch.zeros(n_graphs).index_add(0, batch, out)


def molecules(n, gen, size=5):
    z = torch.randint(0, 5, (n * size,), generator=gen)
    a = torch.arange(n * size).view(n, size)
    src = torch.cat([a.flatten(), a.roll(1, 1).flatten()])
    dst = torch.cat([a.roll(1, 1).flatten(), a.flatten()])
    e = torch.randn(len(src), 2, generator=gen)
    batch = torch.arange(n).repeat_interleave(size)
    y = z.view(n, size).float().mean(1) - 2
    return (z, src, dst, e, batch, n), y
