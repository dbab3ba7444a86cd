import torch


class Engine:
    def __init__(self, net, optimizer, scheduler):
        self.net = net
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=6)

    @property
    def real_steps(self):
        return int(max(s["step"].item() for s in self.optimizer.state.values()))

    def loss(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            return torch.nn.functional.mse_loss(self.net(x), y)

    def train_iter(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(self.loss(x, y)).backward()
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if norm.isfinite():
            self.scheduler.step()
        return norm
