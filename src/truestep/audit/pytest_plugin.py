"""The fixture `truestep_audit`: a test fails on what an audit of its training finds.

    def test_training(truestep_audit):
        train(updates=20)

Errors and warnings fail the test, notes do not. `@pytest.mark.truestep_audit(ignore=["rule-id"], fail_on="error")` narrows that.
`truestep_audit` is the list of findings, which is filled when the test has run.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from truestep.audit.finding import Finding
    from truestep.audit.watching import Findings

WATCH = pytest.StashKey["tuple[ExitStack, Findings]"]()


def pytest_configure(config: pytest.Config) -> None:
    """Tells of the marker."""
    config.addinivalue_line("markers", "truestep_audit(ignore=(), fail_on='warning'): what the fixture truestep_audit lets pass")


@pytest.fixture
def truestep_audit(request: pytest.FixtureRequest) -> Iterator[Findings]:
    """Watches the test's training; the test fails where its update is wrong."""
    from truestep.audit.watching import watch  # noqa: PLC0415 - a plugin is imported by every run of pytest

    with ExitStack() as stack:
        findings = stack.enter_context(watch())
        request.node.stash[WATCH] = stack, findings
        yield findings


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Judges when the test has run and passed, so that what is found is the test's failure and no error beside it."""
    yield
    if WATCH not in item.stash:
        return
    stack, findings = item.stash[WATCH]
    stack.close()
    if failing(item, findings):
        pytest.fail(str(findings), pytrace=False)


def failing(item: pytest.Item, findings: Findings) -> list[Finding]:
    """The findings that the test's marker does not let pass."""
    marker = item.get_closest_marker("truestep_audit")
    options = {} if marker is None else marker.kwargs
    ignored, errors_alone = _rules(options.get("ignore", ())), options.get("fail_on", "warning") == "error"
    return [
        finding
        for finding in findings.faults
        if finding.rule not in ignored and (finding.severity == "error" or not errors_alone)
    ]


def _rules(ignored: object) -> set[str]:
    """The ids that a marker names; the test fails on one that there is not, which would let nothing pass."""
    from truestep.audit.rules import rules  # noqa: PLC0415 - as above

    named = {ignored} if isinstance(ignored, str) else set(ignored) if isinstance(ignored, (list, tuple, set)) else {ignored}
    unknown = sorted(map(str, named - rules().keys()))
    if unknown:
        pytest.fail(f"truestep_audit(ignore=...): there is no rule {', '.join(unknown)}", pytrace=False)
    return {str(each) for each in named}
