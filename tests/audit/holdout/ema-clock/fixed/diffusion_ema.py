import torch
from diffusion_ema_lib import EMA, toy_data
from torch import nn


class EpsNet(nn.Module):
    def __init__(self, d=2, h=24, t_max=20):
        super().__init__()
        self.t = nn.Embedding(t_max, h)
        self.l1, self.l2, self.l3 = nn.Linear(d, h), nn.Linear(h, h), nn.Linear(h, d)

    def forward(self, x, t):
        h = nn.functional.silu(self.l1(x) + self.t(t))
        return self.l3(nn.functional.silu(self.l2(h)))


class GaussianDiffusion(nn.Module):
    def __init__(self, net, steps=20):
        super().__init__()
        self.net, self.steps = net, steps
        self.register_buffer("abar", torch.cumprod(1 - torch.linspace(0.01, 0.3, steps), 0))

    def forward(self, x0):
        t = torch.randint(0, self.steps, (len(x0),))
        eps = torch.randn_like(x0)
        a = self.abar[t].unsqueeze(1)
        return nn.functional.mse_loss(self.net(a.sqrt() * x0 + (1 - a).sqrt() * eps, t).float(), eps)


class Trainer:
    def __init__(self, diffusion, *, lr=5e-2, num_steps=18, every=6):
        self.model = diffusion
        self.opt = torch.optim.Adam(diffusion.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**23)
        self.ema = EMA(diffusion, beta=0.97)
        self.num_steps, self.every, self.completed = num_steps, every, 0
        self.opt.register_step_post_hook(self._count)

    def _count(self, *_):
        self.completed += 1

    @torch.no_grad()
    def sample_loss(self, seed=5):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return self.ema.shadow(next(toy_data(seed, 128))).item()

    def train(self):
        data = toy_data(0, 48)
        for step in range(1, self.num_steps + 1):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = self.model(next(data))
            self.scaler.scale(loss).backward()
            scale = self.scaler.get_scale()
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad()
            if self.scaler.get_scale() >= scale:
                self.ema.update()
            if step % self.every == 0:
                print(f"step {step} loss {loss.item():.4f} ema {self.sample_loss():.4f} scale {scale:.0f}")


torch.manual_seed(10)
trainer = Trainer(GaussianDiffusion(EpsNet()))
trainer.train()
print(
    f"RESULT attempts={trainer.num_steps} completed={trainer.completed} ema_steps={trainer.ema.n} "
    f"decay={trainer.ema.decay():.4f} ema_loss={trainer.sample_loss():.5f}"
)
