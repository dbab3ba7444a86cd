# ---- config ----
learning_rate = 2e-2
min_lr = 2e-3
warmup_iters = 4
lr_decay_iters = 18
max_iters = 18
gradient_accumulation_steps = 2
dtype = "float16"
# ----------------
import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1)
ptdtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}[dtype]


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x):
        q, k, v = self.qkv(self.ln(x)).chunk(3, -1)
        return x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class GPT(nn.Module):
    def __init__(self, vocab=17, d=16):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.blk = Block(d)
        self.lm_head = nn.Linear(d, vocab)

    def forward(self, idx, targets):
        logits = self.lm_head(self.blk(self.wte(idx)))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    ratio = min(1.0, (it - warmup_iters) / (lr_decay_iters - warmup_iters))
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


def get_batch():
    d = torch.randint(0, 17, (4, 1)) + torch.arange(9)
    d = d % 17
    return d[:, :-1], d[:, 1:]


model = GPT()
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, enabled=(dtype == "float16"))
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
iter_num = 0
while iter_num < max_iters:
    lr = get_lr(iter_num)  # <-- FAULT
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    for micro_step in range(gradient_accumulation_steps):
        X, Y = get_batch()
        with torch.autocast("cpu", dtype=ptdtype):
            loss = model(X, Y) / gradient_accumulation_steps
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
adam_steps = int(optimizer.state[model.wte.weight]["step"])
print(f"RESULT iter_num={iter_num} adam_steps={adam_steps} last_lr={lr:.5f} loss={loss.item() * gradient_accumulation_steps:.4f}")
