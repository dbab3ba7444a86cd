"""Buffers that a forward writes are told where a skipped attempt left them unfit; those that nobody writes are not."""

import torch

import truestep


class Masked(torch.nn.Module):
    """Holds a mask with infinities, and a running mean that its forward writes."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
        self.register_buffer("mask", torch.full((4, 4), -torch.inf).triu(1))
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        self.seen.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.linear(x)


def trained(*, bad):
    model = Masked()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with truestep.audit.watch() as findings:
        for number in range(4):
            x = torch.ones(2, 4)
            if number == 1 and bad:
                x[0, 0] = torch.inf
            optimizer.zero_grad()
            scaler.scale(model(x).pow(2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    return [(finding.rule, finding.severity) for finding in findings]


def test_a_mask_of_infinities_is_no_harm():
    assert trained(bad=False) == []


def test_what_a_skipped_forward_wrote_is_told():
    assert ("skipped-attempt-side-effect", "error") in trained(bad=True)


def test_losses_scaled_before_the_first_backward_of_a_window_stay_scaled():
    torch.manual_seed(0)
    one, other = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (one, other)]
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    with truestep.audit.watch() as findings:
        for x in torch.randn(4, 8, 4):
            for optimizer in optimizers:
                optimizer.zero_grad()
            for loss in scaler.scale([one(x).pow(2).mean(), other(x).pow(2).mean()]):
                loss.backward()
            for optimizer in optimizers:
                scaler.step(optimizer)
            scaler.update()
    assert findings.faults == []
