"""The line that cut an optimizer off from the loss is seen, whatever cut it; what lies behind other optimizers is not."""

import pytest

from tests.audit.harness import examine

HEAD = """import torch
from torch import nn
torch.manual_seed(0)
body, head = nn.Linear(4, 4), nn.Linear(4, 2)
"""
REST = """opt = torch.optim.SGD(body.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(3):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = head(BODY).float().pow(2).mean()
    LOSS
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
"""


def named(tmp_path, *, made="", body="body(torch.randn(8, 4))", loss="pass"):
    script = tmp_path / "train.py"
    script.write_text(HEAD + made + REST.replace("BODY", body).replace("LOSS", loss))
    result = examine(script)
    assert result.failure is None, result
    lines = script.read_text().splitlines()
    return {(each.rule, lines[each.line - 1].strip()) for each in result.findings if each.severity != "note"}


@pytest.mark.parametrize(
    ("how", "line"),
    [
        (
            {"loss": "loss = torch.tensor(loss.item(), requires_grad=True)"},
            "loss = torch.tensor(loss.item(), requires_grad=True)",
        ),
        ({"loss": "loss = loss.detach().requires_grad_()"}, "loss = loss.detach().requires_grad_()"),
        (
            {"body": "body(torch.randn(8, 4)).detach()"},
            "loss = head(body(torch.randn(8, 4)).detach()).float().pow(2).mean()",
        ),
        ({"made": "body.requires_grad_(False)\n"}, "body.requires_grad_(False)"),
        ({"made": "for p in body.parameters():\n    p.requires_grad = False\n"}, "p.requires_grad = False"),
        (
            {"made": "def encode(x):\n    with torch.no_grad():\n        return body(x)\n", "body": "encode(torch.randn(8, 4))"},
            "with torch.no_grad():",
        ),
        ({"body": "torch.randn(8, 4)"}, "opt = torch.optim.SGD(body.parameters(), lr=0.1)"),
    ],
    ids=["rebuilt", "made a leaf again", "detached", "frozen at once", "frozen one by one", "no_grad", "never used"],
)
def test_the_cut_is_named(tmp_path, how, line):
    assert named(tmp_path, **how) == {("no-gradient-for-optimizer", line)}


def test_a_loss_detached_for_a_log_is_no_cut(tmp_path):
    assert named(tmp_path, loss="print(loss.detach().item())") == set()
