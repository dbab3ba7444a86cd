"""The fixture `truestep_audit`: a test fails on what an audit of its training finds.

    def test_training(truestep_audit):
        train(updates=20)

Errors and warnings fail the test, notes do not. `@pytest.mark.truestep_audit(ignore=["rule-id"], fail_on="error")` narrows that.
Within the test, `truestep_audit` is the list of findings, which is filled when the test has run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from truestep.audit.watching import Findings


def pytest_configure(config: pytest.Config) -> None:
    """Tells of the marker."""
    config.addinivalue_line("markers", "truestep_audit(ignore=(), fail_on='warning'): what the fixture truestep_audit lets pass")


@pytest.fixture
def truestep_audit(request: pytest.FixtureRequest) -> Iterator[Findings]:
    """Watches the test's training, and fails the test where its update is wrong."""
    from truestep.audit.watching import watch  # noqa: PLC0415 - a plugin is imported by every run of pytest

    marker = request.node.get_closest_marker("truestep_audit")
    options = {} if marker is None else marker.kwargs
    ignored, errors_alone = set(options.get("ignore", ())), options.get("fail_on", "warning") == "error"
    with watch() as findings:
        yield findings
    failing = [
        finding
        for finding in findings.faults
        if finding.rule not in ignored and (finding.severity == "error" or not errors_alone)
    ]
    if failing:
        pytest.fail(str(findings), pytrace=False)
