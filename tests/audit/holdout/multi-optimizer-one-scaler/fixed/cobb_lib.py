import torch


class OptimizerBundle:
    def __init__(self, optimizers, **scaler_kwargs):
        self.optimizers = dict(optimizers)
        self.scaler = torch.amp.GradScaler("cpu", **scaler_kwargs)

    @property
    def scale(self):
        return self.scaler.get_scale()

    def zero_grad(self):
        for opt in self.optimizers.values():
            opt.zero_grad(set_to_none=True)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self):
        for opt in self.optimizers.values():
            self.scaler.step(opt)
        self.scaler.update()

    def state_dict(self):
        return {"scaler": self.scaler.state_dict(), **{k: o.state_dict() for k, o in self.optimizers.items()}}
