import torch
from torch import nn
from wmt_small_lib import AmpStepper, copy_task

torch.manual_seed(0)


class Seq(nn.Module):
    def __init__(self, vocab=14, d=16):
        super().__init__()
        self.src, self.pos = nn.Embedding(vocab, d), nn.Embedding(10, d)
        self.q, self.kv = nn.Linear(d, d), nn.Linear(d, 2 * d)
        self.out = nn.Linear(d, vocab)

    def forward(self, src):
        t = src.size(1)
        mem = self.src(src) + self.pos.weight[:t]
        k, v = self.kv(mem).chunk(2, -1)
        q = self.q(self.pos.weight[:t].flip(0)).expand_as(mem)
        att = nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
        return self.out(att)


def inverse_sqrt(warmup):
    def f(n):
        n += 1
        return min(n / warmup, (warmup / n) ** 0.5)

    return f


def main(updates=24):
    model = Seq()
    opt = torch.optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.98), eps=1e-9)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, inverse_sqrt(5))
    stepper = AmpStepper(opt, sched, init_scale=256.0, growth_interval=4)
    for k, (src, tgt) in zip(range(updates), copy_task(seed=3), strict=False):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(src)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tgt.flatten())
        stepper(loss)
        if k % 6 == 5:
            print(f"{k + 1:3d} loss {loss.item():.3f} lr {opt.param_groups[0]['lr']:.4f} {stepper}")
    n = int(next(iter(opt.state.values()))["step"])
    print(f"RESULT adam_steps={n} ticks={sched.last_epoch} reported_skips={stepper.skipped} loss={loss.item():.4f}")


if __name__ == "__main__":
    main()
