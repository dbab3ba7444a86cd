"""What ends a run is told apart: divergence, stalling, memory, the task's own fault."""

import inspect
from typing import Any

import pytest
import torch

from truestep import Outcome, Reason, Skip
from truestep.engine.counts import Counts
from truestep.errors import SkipLimitError, WeightError
from truestep.run.ending import ending_of


def limit(reason: Reason, policy: str) -> SkipLimitError:
    """The error after one skip too many, the last one for `reason`."""
    outcome = Outcome(
        policy=policy,
        skip=Skip(reason=reason, place="0.weight", detail="it held nan", curable=False),
        loss=float("nan"),
        lr=(0.1,),
        grad_norm=None,
        grad_norm_clipped=None,
        loss_scale=1.0,
        next_loss_scale=1.0,
        weight=1.0,
        weight_check="",
        microbatches=1,
        examples=1,
        tokens=None,
        seconds=0.1,
        counts=Counts(),
    )
    return SkipLimitError(f"3 attempts in a row were skipped; the last for {reason}", outcome=outcome)


@pytest.mark.parametrize("policy", ["fp32", "tf32", "bf16", "fp16"])
@pytest.mark.parametrize("reason", list(Reason))
def test_a_run_has_diverged_where_its_weights_or_its_loss_in_float32_are_not_finite(
    line_with: Any, reason: Reason, policy: str
) -> None:
    status, detail, hint = ending_of(limit(reason, policy), line_with())
    diverged = reason in ("non-finite parameter", "non-finite loss")
    diverged |= reason == "forward overflow" and policy in ("fp32", "tf32")
    assert status == ("diverged" if diverged else "stalled")
    assert detail == f"3 attempts in a row were skipped; the last for {reason}"
    assert hint is not None
    assert "the run's ledger has the reason" in hint


def raised(function: Any) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def test_memory_that_runs_out_is_told_from_other_failures(line_with: Any) -> None:
    def exhaust() -> None:
        torch.empty(2**60, dtype=torch.uint8)  # an exbibyte: the machine's own refusal, in torch's words

    for error in (raised(exhaust), torch.OutOfMemoryError("CUDA out of memory"), MemoryError()):
        assert ending_of(error, line_with())[0] == "out of memory"
    assert ending_of(RuntimeError("shapes do not match"), line_with())[0] == "error"


def test_the_detail_names_the_last_line_of_the_tasks_file_and_not_torchs(line: Any) -> None:
    class Broken(line):  # type: ignore[misc]
        def model(self) -> Any:
            return torch.nn.functional.linear(torch.zeros(2, 2), torch.zeros(2, 3))

    status, detail, hint = ending_of(raised(Broken().model), Broken())
    assert hint is None
    at = inspect.getsourcelines(Broken.model)[1] + 1
    assert status == "error"
    assert detail.startswith("RuntimeError: ")
    assert detail.endswith(f"({__file__}:{at} in model)")


def test_our_own_errors_are_told_by_their_summary_and_their_hint_and_no_line_of_ours(line_with: Any) -> None:
    error = WeightError("the weight is 3, not 2", hint="count again", weight=3)
    assert ending_of(error, line_with()) == ("error", "WeightError: the weight is 3, not 2", "count again")


def test_an_error_of_ours_in_the_tasks_own_lines_names_them(line: Any) -> None:
    class Broken(line):  # type: ignore[misc]
        def model(self) -> Any:
            raise WeightError("no weight")

    at = inspect.getsourcelines(Broken.model)[1] + 1
    assert ending_of(raised(Broken().model), Broken())[1] == f"WeightError: no weight ({__file__}:{at} in model)"
