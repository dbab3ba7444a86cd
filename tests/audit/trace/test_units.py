"""What is made of scaled gradients is followed through each operation: what is divided again is right, the rest is named."""

import pytest

from tests.audit.harness import examine

HEAD = """import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
ps = list(net.parameters())
opt = torch.optim.SGD(ps, lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
mask, kept = torch.ones(8, 8), []
for it in range(3):
    x = torch.randn(16, 8, requires_grad=True)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(x)
        loss = nn.functional.mse_loss(out, x.detach()[:, :1])
"""


def named(tmp_path, before, after):
    """Rules and lines of code of the errors and warnings, with `before` in front of the backward and `after` behind it."""
    body = [*before.splitlines(), "scaler.scale(loss).backward()", *after.splitlines(), "scaler.step(opt)", "scaler.update()"]
    script = tmp_path / "train.py"
    script.write_text(HEAD + "".join(f"    {line}\n" for line in body))
    result = examine(script)
    assert result.failure is None, result
    assert result.ended is None, result
    lines = script.read_text().splitlines()
    return {(each.rule, lines[each.line - 1].strip()) for each in result.findings if each.severity != "note"}


@pytest.mark.parametrize(
    "line",
    [
        "print(ps[0].grad.norm().item())",
        "print(sum(p.grad.pow(2).sum() for p in ps).sqrt().item())",
        "print(f'{(ps[0].grad.std() / ps[0].std()):.3f}')",
        "kept.append(ps[0].grad.data.numpy())",
        "kept.append(torch.histc(ps[0].grad, 10, -1, 1))",
    ],
)
def test_a_number_that_leaves_in_scaled_units_is_named(tmp_path, line):
    assert named(tmp_path, "", line) == {("metric-units", line)}


@pytest.mark.parametrize(
    "line",
    [
        "print((ps[0].grad.norm() / scaler.get_scale()).item())",
        "print((sum(p.grad.pow(2).sum() for p in ps) / scaler.get_scale() ** 2).item())",
        "print((ps[0].grad.abs() / ps[0].grad.abs().sum()).max().item())",
        "print(int(torch.isfinite(ps[0].grad).sum()))",
        "torch._foreach_norm(torch._foreach_mul([p.grad for p in ps], 1 / scaler.get_scale()))[0].item()",
    ],
)
def test_a_number_in_original_units_or_without_any_is_right(tmp_path, line):
    assert named(tmp_path, "", line) == set()


@pytest.mark.parametrize(
    "line",
    [
        "ps[0].grad.add_(ps[0].detach(), alpha=0.1)",
        "ps[0].grad = ps[0].grad + torch.randn_like(ps[0])",
        "torch._foreach_add_([p.grad for p in ps], [p.detach() for p in ps], alpha=0.1)",
        "ps[0].grad.mul_(ps[0].grad.abs() > 0.5)",
        "ps[0].grad.sign_()",
    ],
)
def test_an_edit_in_other_units_is_named(tmp_path, line):
    assert named(tmp_path, "", line) == {("scaled-gradient-edit", line)}


@pytest.mark.parametrize(
    "line",
    [
        "ps[0].grad.mul_(mask)",
        "ps[0].grad.sub_(ps[0].grad.mean())",
        "ps[0].grad.copy_(torch.cat([p.grad.flatten() for p in ps])[:64].view(8, 8))",
    ],
)
def test_an_edit_that_the_scale_does_not_change_is_right(tmp_path, line):
    assert "scaled-gradient-edit" not in {rule for rule, _ in named(tmp_path, "", line)}


GRADIENT = "g, = torch.autograd.grad(scaler.scale(out.sum()), x, create_graph=True)\n"
WEIGHTED = "g, = torch.autograd.grad(out, x, torch.full_like(out, scaler.get_scale()), create_graph=True)\n"
BACKWARD = "scaler.scale(out.sum()).backward(create_graph=True, inputs=[x])\ng = x.grad\n"


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
@pytest.mark.parametrize("gradient", [GRADIENT, WEIGHTED, BACKWARD], ids=["scaled root", "scaled weights", "backward"])
@pytest.mark.parametrize(
    "line", ["penalty = (g.float().norm(dim=1) - 1).pow(2).mean()", "penalty = g.float().square().sum(1).mean()"]
)
def test_a_penalty_on_scaled_gradients_is_named_at_its_line(tmp_path, gradient, line):
    assert named(tmp_path, gradient + line + "\nloss = loss + penalty", "") == {("grad-penalty", line)}


@pytest.mark.parametrize(
    "line",
    [
        "penalty = (g.float().norm(dim=1) / scaler.get_scale() - 1).pow(2).mean()",
        "penalty = g.float().square().sum(1).mean() / scaler.get_scale() ** 2",
        "penalty = ((g.float().square().sum(1) + 1e-12).sqrt() / scaler.get_scale() - 1).square().mean()",
    ],
)
def test_a_penalty_in_original_units_is_right(tmp_path, line):
    assert named(tmp_path, GRADIENT + line + "\nloss = loss + penalty", "") == set()


def test_a_scaled_loss_that_is_logged_is_named(tmp_path):
    line = "print(scaled.item())"
    assert named(tmp_path, f"scaled = scaler.scale(loss)\n{line}", "") == {("metric-units", line)}


@pytest.mark.parametrize(
    "edit",
    [
        "ps[0].grad.mul_(ps[0].grad.abs() >= 1e-9)",
        "ps[0].grad.mul_((ps[0].grad.abs() > 1e-9).float())",
        "ps[0].grad[ps[0].grad.abs() < 1e-9] = 0",
        "ps[0].grad.masked_fill_(ps[0].grad.abs() < 1e-9, 0.0)",
        "ps[0].grad.div_(ps[0].grad.std() + 1e-8)",
    ],
)
def test_a_choice_among_scaled_gradients_is_named_though_it_left_all_of_them(tmp_path, edit):
    assert named(tmp_path, "", edit) == {("scaled-gradient-edit", edit)}


@pytest.mark.parametrize(
    "edit", ["ps[0].grad.mul_(ps[0].grad.abs() >= ps[0].grad.abs().mean())", "ps[0].grad.mul_(ps[0].grad.abs() > 0)"]
)
def test_a_choice_in_their_own_units_is_right(tmp_path, edit):
    assert named(tmp_path, "", edit) == set()
