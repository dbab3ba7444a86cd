"""A rate is wrong where it counts a part of what went through the model, and only there."""

from __future__ import annotations

import textwrap

import pytest

from tests.audit.harness import examine
from truestep.audit.events import Rated
from truestep.audit.rules.counters import RULE
from truestep.audit.site import Place, Site
from truestep.audit.story import Story

HEAD = """
import time
from time import perf_counter
import torch
from torch import nn

torch.manual_seed(0)
ACC, B, T, V = 4, 6, 5, 13
model = nn.Sequential(nn.Embedding(V, 8), nn.Linear(8, V))
opt = torch.optim.SGD(model.parameters(), lr=0.1)

def batch(size=B):
    return torch.randint(0, V, (size, T))

def backward(ids):
    loss = nn.functional.cross_entropy(model(ids).view(-1, V), ids.view(-1)) / ACC
    loss.backward()

def window():
    for _ in range(ACC):
        backward(batch())
    opt.step()
    opt.zero_grad()
"""

FAULTS = {
    "in a function": """
        def run():
            t0 = time.time()
            window()
            return B * T / (time.time() - t0)  # here
        print(run(), run())
        """,
    "from the last reading on": """
        t0 = time.time()
        for i in range(3):
            window()
            t1 = time.time()
            dt = t1 - t0
            t0 = t1
            print(f"{B * T / dt:.1f} tok/s")  # here
        """,
    "by a helper": """
        def log(n, seconds):
            print(n / seconds)
        for i in range(3):
            t0 = perf_counter()
            window()
            log(B * T, perf_counter() - t0)  # here
        """,
    "examples": """
        for i in range(3):
            t0 = time.monotonic()
            for _ in range(ACC):
                x = batch()
                backward(x)
            opt.step()
            opt.zero_grad()
            seconds = time.monotonic() - t0
            print(x.size(0) / seconds)  # here
        """,
    "seconds for each": """
        for i in range(3):
            t0 = time.monotonic()
            window()
            dt = time.monotonic() - t0
            print(1000 * dt / (B * T))  # here
        """,
    "one for each update": """
        for i in range(3):
            t0 = time.time()
            window(), window()
            print(2 * B * T / (time.time() - t0))  # here
        """,
    "by a method": """
        class Timer:
            def __init__(self):
                self.start = time.perf_counter()
            def elapsed(self):
                return time.perf_counter() - self.start
        for i in range(3):
            timer = Timer()
            window()
            print(B * T / timer.elapsed())  # here
        """,
    "added up": """
        start = time.time()
        seen = 0
        for i in range(3):
            window()
            seen += B * T  # here
        print(seen / (time.time() - start))
        """,
    "in nanoseconds": """
        for i in range(3):
            t0 = time.time_ns()
            window()
            print(B * T * 1e9 / (time.time_ns() - t0))  # here
        """,
    "counted after the clock": """
        for i in range(3):
            x = batch()
            t0 = time.time()
            window()
            dt = time.time() - t0
            n = x.numel()
            n *= 1
            print(n / dt)  # here
        """,
    "of a shifted input": """
        def shifted(ids):
            loss = nn.functional.cross_entropy(model(ids[:, :-1]).reshape(-1, V), ids[:, 1:].reshape(-1)) / ACC
            loss.backward()
        for i in range(3):
            t0 = time.time()
            for _ in range(ACC):
                shifted(batch())
            opt.step()
            opt.zero_grad()
            print(B * T / (time.time() - t0))  # here
        """,
    "of a config": """
        class Config:
            batch_size: int = 6
            def __init__(self):
                self.block = {"size": T}
        cfg = Config()
        for i in range(3):
            t0 = time.time()
            window()
            print(cfg.batch_size * cfg.block["size"] / (time.time() - t0))  # here
        """,
    "with a short last microbatch": """
        for i in range(3):
            t0 = time.time()
            for size in (B, B, B, B - 1):
                backward(batch(size))
            opt.step()
            opt.zero_grad()
            print(B * T / (time.time() - t0))  # here
        """,
    "updates by name": """
        num_updates = 0
        for i in range(ACC * 4):
            backward(batch())
            num_updates += 1  # here
            if (i + 1) % ACC == 0:
                opt.step()
                opt.zero_grad()
        """,
}

RIGHT = {
    "all": """
        for i in range(3):
            t0 = time.time()
            window()
            print(ACC * B * T / (time.time() - t0))
        """,
    "one microbatch": """
        for i in range(ACC * 3):
            t0 = time.time()
            backward(batch())
            print(B * T / (time.time() - t0))
            if (i + 1) % ACC == 0:
                opt.step()
                opt.zero_grad()
        """,
    "a mean over the microbatches": """
        for i in range(3):
            t0 = time.time()
            window()
            dt = (time.time() - t0) / ACC
            print(B * T / dt)
        """,
    "updates a second, as many as a batch has examples": """
        every, t0 = B, time.time()
        for i in range(B * 2 + 1):
            window()
            if i % every == 0:
                print(every / (time.time() - t0))
                t0 = time.time()
        """,
    "updates a second, counted": """
        done, t0 = 0, time.time()
        for i in range(B * 2):
            window()
            done += 1
            print(done / (time.time() - t0))
        """,
    "two networks": """
        other = nn.Sequential(nn.Embedding(V, 8), nn.Linear(8, V))
        second = torch.optim.SGD(other.parameters(), lr=0.1)
        for i in range(3):
            t0 = time.time()
            for net, o in ((model, opt), (other, second)):
                ids = batch()
                nn.functional.cross_entropy(net(ids).view(-1, V), ids.view(-1)).backward()
                o.step()
                o.zero_grad()
            print(B * T / (time.time() - t0))
        """,
    "two losses of one forward": """
        for i in range(3):
            t0 = time.time()
            out = model(batch())
            out.mean().backward(retain_graph=True)
            out.square().mean().backward()
            opt.step()
            opt.zero_grad()
            print(B * T / (time.time() - t0))
        """,
    "a step on perturbed weights": """
        for i in range(3):
            t0 = time.time()
            ids = batch()
            for last in (False, True):
                backward(ids)
                if last:
                    opt.step()
                opt.zero_grad()
            print(B * T / (time.time() - t0))
        """,
    "evaluation": """
        window()
        t0 = time.time()
        with torch.no_grad():
            for i in range(5):
                model(batch())
        print(B * T / (time.time() - t0))
        """,
    "time left": """
        t0 = time.time()
        for i in range(8):
            window()
            elapsed = time.time() - t0
            print(elapsed / (i + 1) * (8 - i), (i + 1) / elapsed)
        """,
    "a share of the peak": """
        for i in range(3):
            t0 = time.time()
            window()
            print(6 * B * T * ACC / (time.time() - t0) / 1e12)
        """,
    "added up beside each backward": """
        start, seen = time.time(), 0
        for i in range(3):
            for _ in range(ACC):
                ids = batch()
                backward(ids)
                seen += ids.numel()
            opt.step()
            opt.zero_grad()
        print(seen / (time.time() - start))
        """,
    "updates where they are made": """
        updates = 0
        for i in range(ACC * 4):
            backward(batch())
            if (i + 1) % ACC == 0:
                opt.step()
                opt.zero_grad()
                updates += 1
        """,
    "updates without accumulation": """
        updates = 0
        for i in range(6):
            backward(batch())
            opt.step()
            opt.zero_grad()
            updates += 1
        """,
    "microbatches": """
        step = 0
        for i in range(ACC * 4):
            backward(batch())
            step += 1
            if step % ACC == 0:
                opt.step()
                opt.zero_grad()
        """,
    "what only a call could tell": """
        class Config:
            @property
            def batch_size(self):
                raise SystemExit("called")
        cfg = Config()
        def rate(seconds, tokens=None):
            return (cfg.batch_size if tokens is None else tokens) / seconds
        for i in range(3):
            t0 = time.time()
            window()
            dt = time.time() - t0
            if i < 0:
                print(cfg.batch_size / dt)
        """,
}


def findings(folder, body):
    script = folder / "train.py"
    script.write_text(HEAD + textwrap.dedent(body))
    seen = examine(script)
    assert seen.ended is None
    assert not [each for each in seen.coverage.get("not_judged", ()) if "failed" in each["what"]]
    return script, [each for each in seen.findings if each.rule == "counters"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_count_of_a_part_is_found_at_its_line(tmp_path, name):
    script, found = findings(tmp_path, FAULTS[name])
    line = next(number for number, text in enumerate(script.read_text().split("\n"), 1) if "# here" in text)
    assert [(each.severity, each.path, each.line) for each in found] == [("warning", str(script), line)]


@pytest.mark.parametrize("name", RIGHT)
def test_a_count_that_is_right_or_cannot_be_told_is_no_finding(tmp_path, name):
    assert findings(tmp_path, RIGHT[name])[1] == []


def rated(order=1, *, value=64.0, backwards=8, examples=4, tokens=64, skipped=0, real_tokens=512, place=None):
    return Rated(
        order=order,
        site=Site(place or Place("train.py", 3)),
        expression="n / dt",
        value=value,
        real_examples=32,
        real_tokens=real_tokens,
        backwards=backwards,
        examples=examples,
        tokens=tokens,
        skipped=skipped,
    )


def found(*events):
    return list(RULE(Story(events=events)))


def test_a_finding_names_both_numbers():
    (finding,) = found(rated(), rated(2))
    assert (finding.rule, finding.severity, finding.line, finding.times) == ("counters", "warning", 3, 2)
    assert "counts 64 tokens where 512 went through" in finding.message
    assert "1 of 8 backwards" in finding.message


def test_examples_are_named_where_the_count_is_of_examples():
    (finding,) = found(rated(value=4.0, tokens=None, real_tokens=None))
    assert "counts 4 examples where 32 went through" in finding.message


def test_one_right_count_at_the_line_clears_it():
    assert found(rated(), rated(2, value=512.0)) == []


def test_a_count_that_fits_nothing_clears_its_line():
    assert found(rated(), rated(2, examples=None, tokens=None, real_tokens=None)) == []


def test_stretches_of_one_backward_say_nothing():
    assert found(rated(backwards=1, real_tokens=64)) == []
    assert len(found(rated(), rated(2, backwards=1, real_tokens=64))) == 1


def test_backwards_of_different_sizes_have_to_agree_three_times():
    several = [rated(order, real_tokens=500) for order in (1, 2, 3)]
    assert found(*several[:2]) == []
    assert len(found(*several)) == 1


BUDGET = """
while tokens < LIMIT:
    attempt()
    if scaler.get_scale() >= before:
        updates += 1
    tokens += n
"""


@pytest.mark.parametrize(
    ("source", "skipped", "told"),
    [
        (BUDGET, 3, True),
        (BUDGET, 1, False),
        (BUDGET, 2, False),
        (BUDGET.replace("tokens < LIMIT", "True"), 3, False),
        (BUDGET.replace("        updates += 1", "        pass"), 3, False),
        (BUDGET.replace("    tokens += n", "        tokens += n"), 3, False),
    ],
)
def test_a_budget_that_counts_skipped_work_is_told_from_a_meter_of_what_was_seen(tmp_path, source, skipped, told):
    script = tmp_path / "train.py"
    script.write_text(source)
    line = next(number for number, text in enumerate(source.split("\n"), 1) if "tokens += n" in text)
    event = rated(value=512.0, backwards=20, skipped=skipped, place=Place(str(script), line))
    assert bool(found(event)) is told
