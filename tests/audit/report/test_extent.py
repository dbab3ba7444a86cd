"""How much of a run was judged is counted over its processes, and told where nothing is wrong."""

import torch

import truestep
from tests.audit.rules.making import FIELDS, Telling
from truestep.audit.events import Judged
from truestep.audit.report.extent import extent, judged
from truestep.audit.story import Totals

RIGHT = Judged(expected=1.0, observed=1.0, cosine=1.0, clipped=1.0)


def test_attempts_and_windows_are_counted_over_all_processes():
    assert FIELDS["Stepped"]["judged"] is None
    one = Telling(totals=Totals(attempts={0: 5, 1: 1}, completed={0: 4, 1: 1}, windows_left_out=3))
    one.backward().step(judged=RIGHT).backward().step()
    other = Telling(totals=Totals(attempts={0: 1}, completed={0: 1}))
    other.backward().step(judged=RIGHT)
    counts = extent([one.story(), other.story()])
    assert counts == {"attempts": 7, "completed": 6, "skipped": 1, "windows_judged": 2, "windows_without_events": 3}
    words = "judged: 2 of 7 windows number by number, 4 of 7 attempts (1 skipped) by the order of their calls"
    assert judged(counts) == words


def test_without_counts_nothing_is_said():
    assert judged({"not_judged": []}) is None


def test_a_clean_watch_says_how_much_it_judged_and_an_empty_one_that_it_judged_nothing():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with truestep.audit.watch() as findings:
        for x in torch.ones(3, 8, 4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    first, last = str(findings).splitlines()
    assert first == "judged: 3 of 3 windows number by number, 3 of 3 attempts by the order of their calls"
    assert last == "0 errors, 0 warnings, 0 notes"
    with truestep.audit.watch() as findings:
        pass
    assert str(findings).startswith("judged: nothing\n0 errors, 0 warnings, 0 notes; not judged: the run (no optimizer")


def test_with_a_fault_the_report_says_only_that():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with truestep.audit.watch() as findings:
        for x in torch.ones(3, 8, 4):
            model(x).square().mean().backward()
            optimizer.step()
    assert "judged:" not in str(findings)
