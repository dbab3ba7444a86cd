import argparse
import math
import os
import tempfile
import time
from dataclasses import asdict, dataclass

import torch
import torch.nn as nn  # noqa: PLR0402
import torch.nn.functional as F


@dataclass
class GPTConfig:
    block_size: int = 12
    vocab_size: int = 22
    n_layer: int = 1
    n_embd: int = 12
    dropout: float = 0.1


class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.c_proj = nn.Linear(cfg.n_embd, cfg.n_embd)
        self.drop = nn.Dropout(cfg.dropout)
        self.register_buffer("bias", torch.ones(cfg.block_size, cfg.block_size).tril().bool())

    def forward(self, x):
        t = x.size(1)
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = F.softmax(att.float().masked_fill(~self.bias[:t, :t], float("-inf")), dim=-1)
        return self.c_proj(self.drop(att).to(v.dtype) @ v)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd)
        self.attn = SelfAttention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.n_embd, 2 * cfg.n_embd), nn.GELU(), nn.Linear(2 * cfg.n_embd, cfg.n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(cfg.vocab_size, cfg.n_embd), nn.Embedding(cfg.block_size, cfg.n_embd)
        self.h = nn.ModuleList([Block(cfg) for _ in range(cfg.n_layer)])
        self.ln_f = nn.LayerNorm(cfg.n_embd)
        self.lm_head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, nn.Linear | nn.Embedding):
            nn.init.normal_(m.weight, std=0.05)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None if targets is None else F.cross_entropy(logits.float().view(-1, logits.size(-1)), targets.reshape(-1))
        return logits, loss

    def configure_optimizers(self, wd, lr, betas):
        params = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": wd},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr, betas=betas)


def get_batch(data, cfg, bs, gen):
    ix = torch.randint(len(data) - cfg.block_size - 1, (bs,), generator=gen)
    x = torch.stack([data[i : i + cfg.block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + cfg.block_size] for i in ix])
    return x, y


def get_lr(it, a):
    if it < a.warmup_iters:
        return a.learning_rate * (it + 1) / (a.warmup_iters + 1)
    ratio = min(1.0, (it - a.warmup_iters) / (a.max_iters - a.warmup_iters))
    return a.min_lr + 0.5 * (1 + math.cos(math.pi * ratio)) * (a.learning_rate - a.min_lr)


@torch.no_grad()
def estimate_loss(model, splits, cfg, ctx, bs, k=2):
    model.eval()
    gen = torch.Generator().manual_seed(0)
    out = {}
    for name, data in splits.items():
        losses = torch.zeros(k)
        for i in range(k):
            with ctx():
                losses[i] = model(*get_batch(data, cfg, bs, gen))[1]
        out[name] = losses.mean().item()
    model.train()
    return out


def run(a, cfg, splits, ckpt_path, stop_at):
    ctx = lambda: torch.autocast("cpu", dtype=torch.float16)  # noqa: E731
    model = GPT(cfg)
    optimizer = model.configure_optimizers(0.1, a.learning_rate, (0.9, 0.95))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**21)
    gen = torch.Generator().manual_seed(1337)
    iter_num, skipped, best = 0, 0, float("inf")
    if os.path.exists(ckpt_path):
        ck = torch.load(ckpt_path)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scaler.load_state_dict(ck["scaler"])
        gen.set_state(ck["gen"])
        iter_num, skipped, best = ck["iter_num"], ck["skipped"], ck["best"]
    tokens = 0
    t0 = time.time()
    while iter_num < stop_at:
        lr = get_lr(iter_num, a)
        for group in optimizer.param_groups:
            group["lr"] = lr
        lossf = 0.0
        for _ in range(a.gradient_accumulation_steps):
            x, y = get_batch(splits["train"], cfg, a.batch_size, gen)
            with ctx():
                _, loss = model(x, y)
                loss = loss / a.gradient_accumulation_steps
            scaler.scale(loss).backward()
            lossf += loss.item()
            tokens += x.numel()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), a.grad_clip)
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if scaler.get_scale() < scale:
            skipped += 1
            continue
        iter_num += 1
        if iter_num % a.eval_interval == 0:
            losses = estimate_loss(model, splits, cfg, ctx, a.batch_size)
            dt = time.time() - t0
            print(f"iter {iter_num}: loss {lossf:.4f} val {losses['val']:.4f} lr {lr:.2e} tok/s {tokens / dt:.0f}")
            t0, tokens = time.time(), 0
            best = min(best, losses["val"])
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scaler": scaler.state_dict(),
                    "gen": gen.get_state(),
                    "iter_num": iter_num,
                    "skipped": skipped,
                    "best": best,
                    "cfg": asdict(cfg),
                },
                ckpt_path,
            )
    return iter_num, skipped, best, scaler.get_scale()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--learning_rate", type=float, default=2e-2)
    p.add_argument("--min_lr", type=float, default=2e-3)
    p.add_argument("--warmup_iters", type=int, default=2)
    p.add_argument("--max_iters", type=int, default=8)
    p.add_argument("--eval_interval", type=int, default=4)
    p.add_argument("--gradient_accumulation_steps", type=int, default=3)
    p.add_argument("--batch_size", type=int, default=4)
    p.add_argument("--grad_clip", type=float, default=1.0)
    args = p.parse_args()
    torch.manual_seed(1337)
    text = (torch.arange(900) * 7 + torch.arange(900) // 5) % 22
    data = {"train": text[:800], "val": text[800:]}
    with tempfile.TemporaryDirectory() as out_dir:
        path = os.path.join(out_dir, "ckpt.pt")
        run(args, GPTConfig(), data, path, stop_at=4)
        it, skipped, best, scale = run(args, GPTConfig(), data, path, stop_at=args.max_iters)
    print(f"RESULT iters={it} skipped={skipped} best_val={best:.4f} scale={scale:.0f}")
