"""The fixture fails a test on what its training did wrong, and on nothing else."""

import torch._dynamo  # noqa: F401 - pytester forgets what a run has imported, and torch cannot be imported twice

import truestep.audit.judge
import truestep.audit.trace  # noqa: F401 - likewise

pytest_plugins = ["pytester"]

TRAINING = """
import pytest, torch

def train(divide):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(3, 16, 4):
        for part in x.chunk(4):
            (model(part).pow(2).mean() / divide).backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def outcomes(pytester, test):
    """What became of a file of tests."""
    pytester.makepyfile(TRAINING + test)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    return result, result.parseoutcomes()


def test_a_right_update_passes_and_a_wrong_one_fails_with_its_report(pytester):
    result, counted = outcomes(
        pytester,
        "def test_right(truestep_audit):\n    train(4)\n\ndef test_wrong(truestep_audit):\n    train(1)\n",
    )
    assert counted == {"passed": 1, "failed": 1}
    result.stdout.fnmatch_lines(["*warning: accumulation-weight:*", "0 errors, 1 warning, 0 notes"])


def test_a_marker_lets_a_rule_or_all_warnings_pass(pytester):
    _, counted = outcomes(
        pytester,
        "@pytest.mark.truestep_audit(ignore=['accumulation-weight'])\ndef test_one(truestep_audit):\n    train(1)\n\n"
        "@pytest.mark.truestep_audit(fail_on='error')\ndef test_two(truestep_audit):\n    train(1)\n",
    )
    assert counted == {"passed": 2}


def test_a_test_that_fails_by_itself_keeps_its_own_failure(pytester):
    result, counted = outcomes(pytester, "def test_it(truestep_audit):\n    train(1)\n    assert 1 == 2\n")
    assert counted == {"failed": 1}
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])
    result.stdout.no_fnmatch_line("*accumulation-weight*")


def test_a_rule_that_there_is_not_lets_nothing_pass(pytester):
    result, counted = outcomes(
        pytester, "@pytest.mark.truestep_audit(ignore=['acumulation-weight'])\ndef test_it(truestep_audit):\n    train(4)\n"
    )
    assert counted == {"failed": 1}
    result.stdout.fnmatch_lines(["*there is no rule acumulation-weight*"])


def test_one_rule_may_be_named_by_itself(pytester):
    _, counted = outcomes(
        pytester, "@pytest.mark.truestep_audit(ignore='accumulation-weight')\ndef test_it(truestep_audit):\n    train(1)\n"
    )
    assert counted == {"passed": 1}
