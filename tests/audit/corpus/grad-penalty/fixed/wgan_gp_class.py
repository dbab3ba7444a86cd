import torch
from torch import autograd, nn, optim


class WGANGP:
    def __init__(self, dim=3, lam=10.0, n_critic=2):
        self.G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, dim))
        self.C = nn.Sequential(nn.Linear(dim, 16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 1))
        self.og = optim.RMSprop(self.G.parameters(), lr=1e-3)
        self.oc = optim.RMSprop(self.C.parameters(), lr=1e-3)
        self.sg = torch.amp.GradScaler("cpu", init_scale=128.0)
        self.sc = torch.amp.GradScaler("cpu", init_scale=128.0)
        self.lam, self.n_critic = lam, n_critic
        self.gp = []

    def amp(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def gradient_penalty(self, real, fake):
        eps = torch.rand(len(real), 1)
        x = (eps * real + (1 - eps) * fake).requires_grad_()
        with self.amp():
            y = self.C(x)
        ones = torch.ones_like(y) * self.sc.get_scale()
        g = autograd.grad(y, x, grad_outputs=ones, create_graph=True, retain_graph=True)[0]
        return self.lam * (g.norm(2, dim=1) / self.sc.get_scale() - 1).square().mean()

    def critic_step(self, real):
        with self.amp():
            fake = self.G(torch.randn(len(real), 4)).detach()
            w = self.C(fake).mean() - self.C(real).mean()
        gp = self.gradient_penalty(real, fake.float())
        self.oc.zero_grad()
        self.sc.scale(w + gp).backward()
        self.sc.step(self.oc)
        self.sc.update()
        self.gp.append(gp.item())

    def generator_step(self, n):
        with self.amp():
            loss = -self.C(self.G(torch.randn(n, 4))).mean()
        self.og.zero_grad()
        self.sg.scale(loss).backward()
        self.sg.step(self.og)
        self.sg.update()
        return loss.item()


torch.manual_seed(37)
gan = WGANGP()
for it in range(12):
    for _ in range(gan.n_critic):
        gan.critic_step(torch.randn(16, 3) + 1)
    gl = gan.generator_step(16)
print(f"RESULT gp_first={gan.gp[0]:.4g} gp_last={gan.gp[-1]:.4g} critic_scale={gan.sc.get_scale():g}")
