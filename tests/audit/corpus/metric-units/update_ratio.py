import torch
from torch import nn

torch.manual_seed(62)


class Callback:
    def after_backward(self, state): ...
    def after_step(self, state): ...


class GradToWeight(Callback):
    # gradient over weight, per matrix
    def __init__(self):
        self.rows = []

    def after_backward(self, state):
        row = {}
        for n, p in state["net"].named_parameters():
            if p.ndim > 1:
                row[n] = (p.grad.std() / p.std()).item()  # <-- FAULT
        self.rows.append(row)


def fit(net, data, callbacks):
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    state = dict(net=net, opt=opt)
    for x, y in data:
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.soft_margin_loss(net(x).squeeze(1), y)
        scaler.scale(loss).backward()
        for cb in callbacks:
            cb.after_backward(state)
        scaler.step(opt)
        scaler.update()
        for cb in callbacks:
            cb.after_step(state)


cb = GradToWeight()
xs = torch.randn(8, 20, 5)
fit(nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 1)), [(x, x[:, 0].sign()) for x in xs], [cb])
print("RESULT", {k: round(sum(r[k] for r in cb.rows) / len(cb.rows), 6) for k in cb.rows[0]})
