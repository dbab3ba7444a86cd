"""The SARIF log: the published structure as far as we use it, one rule for each result, places that a viewer finds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from truestep.audit.finding import Finding, Rule
from truestep.audit.report.sarif import MARK, sarif
from truestep.audit.site import Place

RULES = {
    name: Rule(id=name, title=f"{name} title", why=f"{name} why", bad="bad()\n", good="good()\n", sources=sources, check=list)
    for name, sources in (("clip", ("https://example.org/1",)), ("scale", ()))
}
CLIP = Finding(
    rule="clip",
    severity="error",
    path="train.py",
    line=2,
    message="the clip saw scaled gradients",
    damage="too small",
    times=3,
    callers=(Place("my lib/fit.py", 60, "fit"),),
)
PLACELESS = Finding(rule="scale", severity="note", path=None, line=None, message="no scale")

# From the published schema of SARIF 2.1.0: the objects that we write, the properties of each that we use, with `!` behind those
# that it requires, and each value's type. The schema allows no property that it does not name, hence neither do we.
URI, POSITIVE, TEXT = "uri", "positive", "text"
SHAPES = {
    "sarifLog": {"version!": {"2.1.0"}, "$schema": URI, "runs!": ["run"]},
    "run": {
        "tool!": "tool",
        "columnKind": {"utf16CodeUnits", "unicodeCodePoints"},
        "invocations": ["invocation"],
        "results": ["result"],
    },
    "tool": {"driver!": "toolComponent"},
    "toolComponent": {"name!": TEXT, "version": TEXT, "rules": ["reportingDescriptor"]},
    "reportingDescriptor": {
        "id!": TEXT,
        "shortDescription": "multiformatMessageString",
        "fullDescription": "multiformatMessageString",
        "help": "multiformatMessageString",
    },
    "multiformatMessageString": {"text!": TEXT, "markdown": TEXT},
    "invocation": {"executionSuccessful!": bool, "toolExecutionNotifications": ["notification"]},
    "notification": {"message!": "message", "level": {"none", "note", "warning", "error"}},
    "message": {"text": TEXT},
    "result": {
        "ruleId": TEXT,
        "ruleIndex": int,
        "level": {"none", "note", "warning", "error"},
        "message!": "message",
        "locations": ["location"],
        "relatedLocations": ["location"],
        "occurrenceCount": POSITIVE,
        "partialFingerprints": dict,
    },
    "location": {"physicalLocation": "physicalLocation", "message": "message"},
    "physicalLocation": {"artifactLocation": "artifactLocation", "region": "region"},
    "artifactLocation": {"uri": URI, "uriBaseId": TEXT},
    "region": {"startLine": POSITIVE},
}


def wrong(value, shape, where):
    """Each place of a JSON value that is not of its shape."""
    if isinstance(shape, str) and shape in SHAPES:
        named = {name.rstrip("!"): inner for name, inner in SHAPES[shape].items()}
        required = {name[:-1] for name in SHAPES[shape] if name.endswith("!")}
        if not isinstance(value, dict):
            yield where
            return
        yield from (f"{where}.{name}" for name in (value.keys() - named.keys()) | (required - value.keys()))
        for name in value.keys() & named.keys():
            yield from wrong(value[name], named[name], f"{where}.{name}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield where
            return
        for place, each in enumerate(value):
            yield from wrong(each, shape[0], f"{where}[{place}]")
    elif not fits(value, shape):
        yield where


def fits(value, shape):
    if isinstance(shape, set):
        return value in shape
    if isinstance(shape, type):
        return type(value) is shape
    if shape == POSITIVE:
        return type(value) is int and value > 0
    return isinstance(value, str) and bool(value) and (shape != URI or " " not in value)


def made(*findings, root=None, **options):
    log = sarif(findings, rules=RULES, version="1.2", root=root or Path.cwd(), **{"script_ran": True} | options)
    return json.loads(json.dumps(log, allow_nan=False))


@pytest.mark.parametrize("findings", [(), (CLIP,), (CLIP, PLACELESS, replace(CLIP, severity="warning", path="/else/a b.py"))])
def test_the_log_has_the_published_structure(findings):
    assert list(wrong(made(*findings, not_judged=["a (b)"]), "sarifLog", "log")) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: run["results"][0].pop("message"),
        lambda run: run["results"][0].update(severity="error"),
        lambda run: run["results"][0].update(level="fatal"),
        lambda run: run["results"][0].update(occurrenceCount=0),
        lambda run: run["tool"]["driver"]["rules"][0].pop("id"),
        lambda run: run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"].update(uri="a b.py"),
    ],
)
def test_the_check_of_the_structure_finds(spoil):
    log = made(CLIP)
    spoil(log["runs"][0])
    assert len(list(wrong(log, "sarifLog", "log"))) == 1


def test_every_result_points_at_its_rule_and_every_rule_is_described():
    (run,) = made(CLIP, PLACELESS)["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[each["ruleIndex"]]["id"] for each in run["results"]] == [each["ruleId"] for each in run["results"]]
    assert [rule["fullDescription"]["text"] for rule in rules] == ["clip why", "scale why"]
    assert "```python\nbad()\n```" in rules[0]["help"]["markdown"]
    assert "https://example.org/1" in rules[0]["help"]["text"]
    assert all("helpUri" not in rule for rule in rules)


@pytest.mark.parametrize("severity", ["error", "warning", "note"])
def test_a_severity_is_a_level(severity):
    (result,) = made(replace(CLIP, severity=severity))["runs"][0]["results"]
    assert result["level"] == severity


def test_the_message_says_all_that_the_text_says_of_it():
    (result,) = made(CLIP)["runs"][0]["results"]
    assert result["message"]["text"].splitlines()[:3] == [
        "the clip saw scaled gradients",
        "  seen 3 times",
        "  damage: too small",
    ]
    assert result["occurrenceCount"] == 3


def test_a_uri_is_relative_to_the_root_and_escaped_and_absolute_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    (here, there) = made(CLIP, replace(CLIP, path="/else/a b.py"), root=tmp_path)["runs"][0]["results"]
    location = here["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "inner/train.py", "uriBaseId": "%SRCROOT%"}
    assert location["region"] == {"startLine": 2}
    caller = here["relatedLocations"][0]["physicalLocation"]["artifactLocation"]
    assert caller["uri"] == "inner/my%20lib/fit.py"
    assert there["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "file:///else/a%20b.py"}


def test_a_finding_without_a_line_has_no_location():
    (result,) = made(PLACELESS)["runs"][0]["results"]
    assert result["locations"] == []


def test_a_fingerprint_survives_a_moved_line_and_tells_equal_lines_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def marks(text, *lines):
        (tmp_path / "train.py").write_text(text)
        results = made(*(replace(CLIP, line=line) for line in lines))["runs"][0]["results"]
        return [each["partialFingerprints"][MARK] for each in results]

    first = marks("a()\nclip()\nclip()\n", 2, 3)
    assert len(set(first)) == 2
    assert marks("b()\n\na()\nclip()\n\nclip()\n", 4, 6) == first
    assert marks("a()\nclip(1)\nclip()\n", 2, 3)[0] not in first


def test_a_script_that_did_not_end_well_and_what_was_not_judged_are_told():
    (invocation,) = made(script_ran=False, not_judged=["the compiled step (its calls are hidden)"])["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["message"]["text"] == "not judged: the compiled step (its calls are hidden)"
