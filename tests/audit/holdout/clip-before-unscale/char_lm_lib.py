from torch.nn.utils import clip_grad_value_


class GradClipper:
    def __init__(self, model, value):
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.value = value

    def __call__(self):
        if self.value and self.value > 0:
            clip_grad_value_(self.params, self.value)  # <-- FAULT


class StepLog:
    def __init__(self):
        self.losses = []
        self.peaks = []

    def record(self, step, loss, model):
        self.losses.append(loss.item())
        self.peaks.append(max(p.grad.abs().max().item() for p in model.parameters()))
        if step % 10 == 0:
            print(f"step {step:4d} | loss {self.losses[-1]:.3f} | max|g| {self.peaks[-1]:.2e}")
