"""The API of torch.cuda.amp throughout: autocast as a decorator and nested, a scaler, custom functions with their casts."""

import os

import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast, custom_bwd, custom_fwd


class Square(torch.autograd.Function):
    @staticmethod
    @custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x):
        assert x.dtype == torch.float32
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @custom_bwd
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(5, 8), nn.Linear(8, 2)

    @autocast()
    def forward(self, x):
        hidden = self.one(x)
        assert hidden.dtype == torch.float16
        with autocast(enabled=False):
            hidden = torch.tanh(hidden.float())
        return self.two(Square.apply(hidden))


torch.manual_seed(5)
net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
scaler = GradScaler(init_scale=2.0**10)
for _ in range(3):
    x, y = torch.randn(6, 5).cuda(), torch.randint(2, (6,)).cuda()
    with autocast():
        loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
torch.save(net.state_dict(), os.environ["OUT"])
