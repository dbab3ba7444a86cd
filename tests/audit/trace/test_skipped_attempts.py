"""What a loop does where an attempt should be skipped is seen: gradients cleared one by one, buffers put back, averages moved."""

import textwrap

from tests.audit.harness import examine

HEAD = """
import copy
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
mean = copy.deepcopy(model).requires_grad_(False)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for it in range(8):
    x = torch.randn(8, 4)
    kept = copy.deepcopy(dict(model.named_buffers()))
    if it == 3:
        x[0] = BAD
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), x[:, :1])
    scaler.scale(loss).backward()
"""
STEP = "    scaler.step(opt)\n    scaler.update()\n"
CLEAR = "    for p in model.parameters():\n        if not p.grad.isfinite().all():\n            p.grad.zero_()\n"
RESTORE = "    if it == 3:\n        model.load_state_dict(kept, strict=False)\n"


def findings(tmp_path, *parts, bad='float("inf")'):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(HEAD).replace("BAD", bad) + "".join(parts))
    result = examine(script)
    assert result.failure is None, result
    assert result.ended is None, result
    lines = script.read_text().splitlines()
    return {(each.rule, lines[each.line - 1].strip()) for each in result.findings if each.severity != "note"}


def test_gradients_that_are_cleared_where_they_are_not_finite_are_hidden(tmp_path):
    assert ("skip-not-atomic", "p.grad.zero_()") in findings(tmp_path, CLEAR, STEP)


def test_all_gradients_cleared_for_a_skip_by_hand_are_not(tmp_path):
    skip = "    if not torch.isfinite(loss):\n        opt.zero_grad()\n"
    skip += "        model.load_state_dict(kept, strict=False)\n        continue\n"
    assert findings(tmp_path, skip, STEP) == set()


def test_buffers_that_stay_unfit_are_told(tmp_path):
    assert findings(tmp_path, STEP) == {("skipped-attempt-side-effect", "loss = nn.functional.mse_loss(model(x), x[:, :1])")}


def test_buffers_that_are_put_back_are_not(tmp_path):
    assert findings(tmp_path, STEP, RESTORE) == set()


def test_an_average_by_hand_is_counted_by_microbatch_and_not_by_parameter(tmp_path):
    move = "    with torch.no_grad():\n"
    move += "        for e, p in zip(mean.parameters(), model.parameters()):\n            e.lerp_(p, 0.1)\n"
    each = "    if it % 4 == 3:\n        scaler.step(opt)\n        scaler.update()\n"
    assert ("ema-clock", "e.lerp_(p, 0.1)") in findings(tmp_path, each, move, bad="1.0")
    assert ("ema-clock", "e.lerp_(p, 0.1)") not in findings(tmp_path, STEP, move, bad="1.0")
