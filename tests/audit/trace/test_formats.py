"""What formats do to numbers is seen: where weights and sums were made short, which epsilon vanished, which region is off."""

import torch

from tests.audit.harness import examine
from truestep.audit.events import Autocast, Lost, LowParameters, Overflowed, Vanished
from truestep.audit.trace import start


def events(run, kind):
    watcher = start()
    try:
        run()
    finally:
        watcher.stop()
    assert watcher.recorder.coverage()["not_judged"] == []
    return [event for event in watcher.recorder.events if isinstance(event, kind)]


def test_an_epsilon_that_rounds_to_zero_is_told_with_its_format():
    (event,) = events(lambda: torch.ones(3, dtype=torch.float16) + 1e-8, Vanished)
    assert (event.number, event.dtype) == (1e-8, "float16")


def test_a_factor_beside_a_second_tensor_is_no_epsilon():
    half = torch.ones(3, dtype=torch.float16)
    assert events(lambda: torch.add(half, half, alpha=1e-8), Vanished) == []
    assert events(lambda: half + 1e-4, Vanished) == []


def test_an_epsilon_inside_of_the_scripts_own_optimizer_is_told(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "class Own(torch.optim.SGD):\n"
        "    def step(self, closure=None):\n"
        "        for p in self.param_groups[0]['params']:\n"
        "            p.data.sub_(p.grad / (p.grad.half().abs() + 1e-8).float())\n"
        "net = torch.nn.Linear(2, 2)\n"
        "own = Own(net.parameters(), lr=0.1)\n"
        "net(torch.ones(1, 2)).sum().backward()\n"
        "own.step()\n"
    )
    assert [(each.rule, each.line) for each in examine(script).findings if each.rule == "eps-underflow"] == [("eps-underflow", 5)]


def test_a_sum_knows_where_it_was_made_short():
    def run():
        total = torch.full((4,), 256.0, dtype=torch.bfloat16)
        total += torch.ones(4)

    (event,) = events(run, Lost)
    assert (event.moved, event.asked) == (0, 4)
    assert event.made.place.line == event.site.line - 1


def test_frozen_weights_in_a_low_precision_are_not_the_optimizers():
    def run():
        net = torch.nn.Linear(2, 2).half().requires_grad_(False)
        own = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*net.parameters(), *own.parameters()], lr=0.1)
        own(net(torch.ones(1, 2).half()).float()).sum().backward()
        optimizer.step()

    assert events(run, LowParameters) == []


def test_an_overflow_in_a_criterion_is_the_losss_and_one_in_a_layer_is_not():
    class Squares(torch.nn.Module):
        def forward(self, x):
            return x * x

    half = torch.full((2,), 300.0, dtype=torch.float16)
    (event,) = events(lambda: Squares()(half), Overflowed)
    assert (event.in_loss, event.negative, event.largest) == (True, False, 90000.0)
    squares = Squares()
    squares.weight = torch.nn.Parameter(torch.ones(1))
    (event,) = events(lambda: squares(half), Overflowed)
    assert not event.in_loss


def test_a_region_tells_what_it_was_asked_for():
    def run():
        with torch.autocast("cpu", enabled=False):
            pass

    (event,) = events(run, Autocast)
    assert (event.asked, event.enabled) == (False, False)
