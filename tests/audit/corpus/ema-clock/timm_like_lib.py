import torch
from torch import nn


class ModelEmaV2:
    def __init__(self, model, decay=0.9999):
        self.decay = decay
        self.num_updates = 0
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def current_decay(self):
        return min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))

    @torch.no_grad()
    def update(self, model):
        d = self.current_decay()
        self.num_updates += 1
        for k, v in model.state_dict().items():
            self.shadow[k].copy_(d * self.shadow[k] + (1 - d) * v)


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu", init_scale=2.0**21)
        self.steps = 0

    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        before = self._scaler.get_scale()
        self._scaler.step(optimizer)
        self._scaler.update()
        ok = self._scaler.get_scale() >= before
        self.steps += ok
        return ok


def build():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    return net, torch.optim.RMSprop(net.parameters(), lr=1e-3)
