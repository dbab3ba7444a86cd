"""Remarks in a script: they hold with a reason, for their statement alone, and one that does nothing is told."""

import pytest

from truestep.audit.finding import Finding
from truestep.audit.report import ignores
from truestep.audit.report.ignores import ignores_in, passed_over
from truestep.audit.report.sorting import without_ignored

KNOWN = ["clip-before-unscale", "missing-update", "scale-moved"]
WHY = "# truestep: ignore[scale-moved] by design"


def found(line, rule="scale-moved", path="t.py"):
    return Finding(rule=rule, severity="error", path=path, line=line, message="m")


def judged(text, *findings):
    """(the findings that a remark passes over, (rule, severity, line) of what else is told)."""
    stay, passed = passed_over(findings, list(ignores_in(text, "t.py")), rules=KNOWN)
    return list(passed), [(each.rule, each.severity, each.line) for each in stay]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"step()  {WHY}\n", 1),
        (f"{WHY}\nstep()\n", 2),
        (f"if x:\n    {WHY}\n    step()\n", 3),
        (f"if x:\n    a()\n{WHY}\nstep()\n", 4),
        (f"# other words\n{WHY}\n# more words\nstep()\n", 4),
        (f"step(\n    x,\n)  {WHY}\n", 1),
        (f"step(\n    x,\n)  {WHY}\n", 2),
        (f"step(  {WHY}\n    x,\n)\n", 3),
        (f"step(\n    {WHY}\n    x,\n)\n", 1),
        (f'step("""\n""")  {WHY}', 1),
        (f"with a:  {WHY}\n    b()\n", 1),
        (f"{WHY}\r\nstep()\r\n", 2),
        ("step()  # noqa: X1 # truestep: ignore[scale-moved] by design\n", 1),
        ("step()  #truestep:ignore[ scale-moved , missing-update ]: by design\n", 1),
        ("step()  # truestep: ignore [scale-moved] see #12\n", 1),
    ],
)
def test_a_remark_holds_for_the_statement_that_it_stands_on_or_right_above(text, line):
    finding = found(line)
    passed, told = judged(text, finding)
    assert passed == [finding]
    assert ("scale-moved", "error", line) not in told


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"step()\nstep()  {WHY}\n", 1),
        (f"step()  {WHY}\nstep()\n", 2),
        (f"{WHY}\n\nstep()\n", 3),
        (f"{WHY}\nstep()\nstep()\n", 3),
        (f"with a:  {WHY}\n    step()\n", 2),
        (f"step()\n{WHY}\n", 1),
        (f"step()\n{WHY}", 1),
    ],
)
def test_a_remark_holds_for_no_other_line_and_is_told_to_be_unused(text, line):
    passed, told = judged(text, found(line))
    remark = text.splitlines().index(next(each for each in text.splitlines() if WHY in each)) + 1
    assert passed == []
    assert told == [("scale-moved", "error", line), ("unused-ignore", "note", remark)]


def test_a_remark_is_about_its_own_file_and_its_own_rules():
    passed, told = judged(f"step()  {WHY}\n", found(1, path="u.py"), found(1, rule="missing-update"))
    assert passed == []
    assert [rule for rule, _, _ in told] == ["scale-moved", "missing-update", "unused-ignore"]


@pytest.mark.parametrize(
    "text",
    [
        f"x = '{WHY}'\n",
        f'x = """\n{WHY}\n"""\n',
        f'x = f"{{y}} {WHY}"\n',
        "step()  # truestep: ignored[scale-moved] by design\n",
        "step()  # ignore[scale-moved] by design\n",
    ],
)
def test_what_only_looks_like_a_remark_is_none(text):
    assert list(ignores_in(text, "t.py")) == []


@pytest.mark.parametrize("tail", ["", "  ", " -", ":", " # noqa", "  # type: ignore"])
def test_without_a_reason_it_does_not_hold_and_is_a_warning(tail):
    passed, told = judged(f"step()  # truestep: ignore[scale-moved]{tail}\n", found(1))
    assert passed == []
    assert told == [("scale-moved", "error", 1), ("ignore-without-reason", "warning", 1)]


def test_the_reason_ends_where_another_tools_comment_begins():
    (remark,) = ignores_in("step()  # truestep: ignore[scale-moved] - by design, see #12  # noqa: X1\n", "t.py")
    assert remark.reason == "by design, see #12"


def test_an_unknown_rule_is_a_warning_that_names_the_near_ones():
    stay, _ = passed_over([], list(ignores_in("step()  # truestep: ignore[scale-mved] by design\n", "t.py")), rules=KNOWN)
    assert [(each.rule, each.severity) for each in stay] == [("ignore-unknown-rule", "warning")]
    assert stay[0].message == "there is no rule scale-mved"
    assert "scale-moved" in stay[0].fix


@pytest.mark.parametrize("words", ["ignore by design", "ignore[] by design", "ignore[scale-moved by design"])
def test_a_remark_that_names_no_rule_is_a_warning_and_passes_nothing_over(words):
    passed, told = judged(f"step()  # truestep: {words}\n", found(1))
    assert passed == []
    assert told == [("scale-moved", "error", 1), ("ignore-unknown-rule", "warning", 1)]


def test_of_two_rules_the_one_that_passed_nothing_over_is_told():
    passed, told = judged("step()  # truestep: ignore[scale-moved, missing-update] by design\n", found(1))
    assert passed == [found(1)]
    assert told == [("unused-ignore", "note", 1)]


def test_one_remark_passes_over_every_finding_of_its_rule_there():
    passed, told = judged(f"step(\n    x\n)  {WHY}\n", found(1), found(2))
    assert (len(passed), told) == (2, [])


def test_what_follows_broken_python_is_not_read_and_what_stands_before_is():
    assert [each.line for each in ignores_in(f"step()  {WHY}\n'''\nstep()  {WHY}\n", "t.py")] == [1]
    assert [each.line for each in ignores_in(f"if a:\n        b()  {WHY}\n    c()  {WHY}\n", "t.py")] == [2]


def test_remarks_are_looked_for_in_the_script_and_wherever_a_finding_lies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.py").write_text(f"step()  {WHY}\n")
    (tmp_path / "lib.py").write_text(f"step()  {WHY}\n")
    there = found(1, path="lib.py")
    result = without_ignored([there], script="main.py", rules=KNOWN)
    assert result.ignored == (there,)
    assert [(each.rule, each.path) for each in result.told] == [("unused-ignore", "main.py")]


@pytest.mark.parametrize("rule", ignores.RULES.values(), ids=lambda rule: rule.id)
def test_the_bad_example_of_each_rule_has_it_and_the_good_one_has_not(rule):
    def told(text):
        lines = [number for number, line in enumerate(text.splitlines(), 1) if "clip_(" in line]
        _, complaints = judged(text, *(found(line, rule="clip-before-unscale") for line in lines))
        return rule.id in [each for each, _, _ in complaints]

    assert told(rule.bad)
    assert not told(rule.good)
