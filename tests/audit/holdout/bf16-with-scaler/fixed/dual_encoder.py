import torch
import torch.nn as nn
import torch.nn.functional as F

AMP_DTYPE = torch.bfloat16
USE_AMP = True


class Tower(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.fc = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, ids):
        return F.normalize(self.fc(self.bag(ids)).float(), dim=-1)


class DualEncoder(nn.Module):
    def __init__(self, vocab=50, dim=16):
        super().__init__()
        self.q, self.d = Tower(vocab, dim), Tower(vocab, dim)
        self.log_t = nn.Parameter(torch.tensor(2.0))

    def forward(self, q, d):
        return self.q(q) @ self.d(d).t() * self.log_t.exp()


def sample(gen, bs=12):
    d = torch.randint(0, 50, (bs, 8), generator=gen)
    return d[:, :4].contiguous(), d


def recall(model, gen):
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=AMP_DTYPE, enabled=USE_AMP):
        q, d = sample(gen, 32)
        r = (model(q, d).argmax(1) == torch.arange(32)).float().mean().item()
    model.train()
    return r


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = DualEncoder()
    opt = torch.optim.AdamW(
        [{"params": [p for n, p in model.named_parameters() if n != "log_t"]}, {"params": [model.log_t], "weight_decay": 0.0}],
        lr=0.01,
    )
    scaler = torch.amp.GradScaler("cpu", enabled=USE_AMP and AMP_DTYPE is torch.float16)
    labels = torch.arange(12)
    for step in range(24):
        q, d = sample(gen)
        with torch.autocast("cpu", dtype=AMP_DTYPE, enabled=USE_AMP):
            s = model(q, d)
        s = s.float()
        loss = (F.cross_entropy(s, labels) + F.cross_entropy(s.t(), labels)) / 2
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % 8 == 0:
            print(step, round(loss.item(), 4))
    print(
        f"RESULT loss={loss.item():.3f} recall={recall(model, gen):.2f} scaler={scaler.is_enabled()} scale={scaler.get_scale():.0f}"
    )


main()
