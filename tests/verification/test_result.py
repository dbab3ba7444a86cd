"""What a verification says of itself: in its headline, in its table, and where a test asserts that it passed."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from truestep.verification.bias import bias_of
from truestep.verification.criterion import Judgement
from truestep.verification.gap import gaps
from truestep.verification.reading import Reading
from truestep.verification.result import BRIEF, Skipped, Verification
from truestep.verification.rows import ALL_ZERO, COLUMNS, row_of
from truestep.verification.verify import verify

BIAS = bias_of([0.0], allowed=0.1)
READING = Reading(kind="not-divided", sentence="the losses were added up. " * 12, factor=4.0, fix="divide", rule=None)


def judgement(within, arrived=1.0, wanted=1.0, *, tolerance=0.01, words=None):
    gap = gaps({"w": torch.tensor([arrived])}, {"w": torch.tensor([wanted])}, {"w": torch.tensor([wanted])})[0]
    return Judgement(gap=gap, tolerance=tolerance, within=within, words=words)


def verification(*judgements, skipped=(), attempts=1, reading=None):
    return Verification(
        subject="loop",
        policy=None,
        attempts=attempts,
        microbatches=4,
        skipped=tuple(skipped),
        rows=tuple(row_of([(0, each)], bias=BIAS) for each in judgements),
        criterion=(),
        bias=BIAS,
        reading=reading,
        coupling=None,
        remainder=None,
        notes=(),
    )


def test_a_headline_says_how_many_attempts_were_compared_and_why_others_were_not():
    skipped = [Skipped(attempt=1, reason="overflow at scale 65536", detail="the scaler halved it")]
    result = verification(judgement(True), skipped=skipped, attempts=4)
    assert result.passed
    assert result.headline.startswith("passed: ")
    assert result.headline.endswith("; 3 of 4 attempts compared, 1 skipped (overflow at scale 65536)")
    assert "attempt 1 was skipped: overflow at scale 65536: the scaler halved it" in str(result)
    assert "skipped" not in verification(judgement(True)).headline
    assert "no attempt of 1 stepped (overflow at scale 65536)" in verification(skipped=skipped).headline


def test_many_different_reasons_are_cut_short():
    skipped = [Skipped(attempt=k, reason=f"overflow at scale {2**k}") for k in range(9)]
    headline = verification(judgement(True), skipped=skipped, attempts=10).headline
    assert "9 skipped (overflow at scale 1; overflow at scale 2; overflow at scale 4; and others)" in headline


def test_a_gradient_that_is_zero_in_both_is_no_row_that_lies_within():
    zero = judgement(True, 0.0, 0.0, tolerance=None, words="0 in both")
    result = verification(zero, zero)
    assert not result.passed
    assert result.headline == "FAILED: all gradients are zero in 1 attempt: nothing to compare"
    assert {(row.verdict, row.words) for row in result.rows} == {("not judged", ALL_ZERO)}
    other = verification(zero, judgement(True))
    assert other.passed
    assert [row.verdict for row in other.rows] == ["not judged", "within"]
    both = row_of([(0, zero), (1, judgement(True))], bias=BIAS)
    assert (both.verdict, both.attempt, both.words) == ("within", 1, None)


def test_a_headline_says_where_not_all_parameters_were_judged():
    noise = judgement(None, tolerance=None, words="its gradient is 0 but for rounding")
    skipped = [Skipped(attempt=1, reason="overflow", detail=None)]
    some = verification(judgement(True), noise, noise, skipped=skipped, attempts=2)
    assert some.passed
    assert "; 1 of 3 parameters judged; 1 of 2 attempts compared" in some.headline
    assert some.record()["judged"] == 1
    assert verification(judgement(True), noise).headline.endswith("; 1 of 2 parameters judged")
    assert "judged" not in verification(judgement(True)).headline
    assert "1 of 2 parameters judged" in verification(judgement(False, 4.0), noise).headline


@pytest.mark.parametrize("within", [None, False])
def test_what_has_no_tolerance_shows_no_percentage_and_its_reason(within):
    noise = judgement(within, 5.0, 1e-9, tolerance=None, words="its gradient is 0 but for rounding")
    result = verification(noise)
    assert result.rows[0].cells()[2:] == ("-",) * (len(COLUMNS) - 2)
    assert "%" not in str(result).partition("bias:")[0]
    assert "w: its gradient is 0 but for rounding" in str(result)


@pytest.mark.parametrize("reading", [None, READING])
def test_a_repr_is_what_pytest_shows_of_it(reading):
    shown = repr(verification(judgement(False, 4.0), reading=reading))
    assert len(shown) <= BRIEF
    assert shown.startswith("FAILED: 1 of 1 parameter")
    assert shown.endswith("str() of it tells all")
    assert ("reading (not-divided): the losses" in shown) == (reading is not None)


FAILING = """
import torch
import truestep


def test_the_window():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(window):
        optimizer.zero_grad()
        for x in window:
            model(x).square().mean().backward()
        optimizer.step()

    windows = [[torch.randn(5, 3) for _ in range(3)] for _ in range(2)]
    found = truestep.verify(step, windows, model=model, optimizer=optimizer, loss=lambda model, x: model(x).square().mean())
    assert found.passed, found
"""


def test_an_assertion_of_pytest_shows_verdict_and_cause(tmp_path):
    (tmp_path / "test_window.py").write_text(FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_window.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert "AssertionError: FAILED: 2 of 2 parameters are beyond" in done.stdout
    assert "reading (not-divided): the mean losses of 3 microbatches were added up and not divided" in done.stdout


def test_a_loop_of_which_all_gradients_are_zero_says_so_in_headline_and_rows():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())

    def loss(model, x):
        return (0.0 * model(x)).sum()

    def step(window):
        optimizer.zero_grad()
        for x in window:
            (loss(model, x) / len(window)).backward()
        optimizer.step()

    result = verify(step, [[torch.ones(2, 3)] * 2] * 2, model=model, optimizer=optimizer, loss=loss)
    assert "all gradients are zero in 2 attempts" in result.headline
    assert str(result).count(ALL_ZERO) == 2
    assert "within" not in str(result)
