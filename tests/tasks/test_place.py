"""What a task's own code raises is told with its line; what truestep refuses keeps its words."""

import pytest

from truestep.errors import PolicyError, RunError, TaskError
from truestep.tasks.place import their_code


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(4), MemoryError("full")])
def test_a_failure_is_a_run_error_with_line_kind_and_words(error):
    with pytest.raises(RunError) as caught, their_code(__file__, failed="while it was tried"):
        raise error
    assert caught.value.__cause__ is error
    assert caught.value.summary.startswith(f"{__file__}:12 in test_a_failure_is_a_run_error")
    assert caught.value.summary.endswith(f": {type(error).__name__}: {error}")
    assert caught.value.path == __file__
    assert caught.value.hint == "the task's own code failed while it was tried"


@pytest.mark.parametrize("error", [TaskError("no such task"), RunError("told already"), KeyboardInterrupt()])
def test_what_is_told_already_and_ctrl_c_pass(error):
    with pytest.raises(type(error)) as caught, their_code(__file__, failed="while it was tried"):
        raise error
    assert caught.value is error


def test_an_error_of_ours_in_their_code_keeps_its_summary_and_its_hint():
    with pytest.raises(RunError) as caught, their_code(__file__, failed="while it was tried"):
        raise PolicyError("no such precision", hint="use fp32", policy="fp15")
    assert caught.value.summary.endswith(": PolicyError: no such precision")
    assert caught.value.hint == "use fp32"
