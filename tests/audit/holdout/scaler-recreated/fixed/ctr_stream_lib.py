import torch


class Precision:
    def __init__(self, dtype=torch.float16, start=2.0**23):
        self.dtype = dtype
        self.scaler = torch.amp.GradScaler("cpu", init_scale=start)
        self.applied = 0
        self.dropped = 0

    def forward(self):
        return torch.autocast("cpu", dtype=self.dtype)

    def apply(self, loss, optimizer):
        scaler = self.scaler
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        ok = scaler.get_scale() >= before
        if ok:
            self.applied += 1
        else:
            self.dropped += 1
        return ok
