"""A traceback shows the script's frames and none of the audit's."""

import traceback

import pytest

from truestep.audit.process import tracebacks
from truestep.audit.process.tracebacks import without_ours


def through_ours(call):
    """Calls it from a function whose file is the audit's."""
    namespace = {}
    exec(compile("def run(call):\n    call()\n", f"{tracebacks._OURS}trace/x.py", "exec"), namespace)
    namespace["run"](call)


def fails():
    raise ValueError("hot")


def fails_below():
    through_ours(lambda: through_ours(fails))


def functions(error):
    return [each.name for each in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    ("call", "left"),
    [
        (fails, ["caught", "fails"]),
        (fails_below, ["caught", "fails_below", "<lambda>", "fails"]),
        (lambda: through_ours(lambda: 1 / 0), ["caught", "<lambda>", "<lambda>"]),
    ],
)
def test_only_the_audits_frames_go(call, left):
    found = caught(call)
    without_ours(found)
    assert [name for name in functions(found) if name != "through_ours"] == left
    assert "trace/x.py" not in "".join(traceback.format_exception(found))


def caught(call):
    try:
        call()
    except Exception as error:
        return error


@pytest.mark.parametrize("link", ["__context__", "__cause__"])
def test_what_led_to_an_exception_is_cleaned_too_and_a_circle_is_walked_once(link):
    error = caught(fails)
    setattr(error, link, caught(fails_below))
    setattr(getattr(error, link), link, error)
    assert "trace/x.py" in "".join(traceback.format_exception(error))
    without_ours(error)
    assert "trace/x.py" not in "".join(traceback.format_exception(error))


def test_an_exception_without_a_traceback_stays_without():
    error = ValueError("hot")
    without_ours(error)
    assert error.__traceback__ is None
