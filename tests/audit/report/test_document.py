"""The document of --json: the fields of the contract, and nothing that JSON cannot hold."""

import json

from truestep.audit.finding import Finding, Rule
from truestep.audit.report.document import document, rules_document
from truestep.audit.site import Place

FINDING = Finding(rule="a", severity="note", path="t.py", line=3, message="m", damage=None, fix="f", callers=(Place("u.py", 4),))


def test_the_document_holds_the_contracts_fields_and_every_finding_in_full():
    made = document([FINDING], script="t.py", exit_code=0, script_exit=0, coverage={"not_judged": []}, known=2, ignored=1)
    assert json.loads(json.dumps(made, allow_nan=False)) == {
        "schema": 1,
        "script": "t.py",
        "exit_code": 0,
        "script_exit": 0,
        "findings": [FINDING.as_dict()],
        "known": 2,
        "ignored": 1,
        "coverage": {"not_judged": []},
    }
    assert made["findings"][0]["callers"] == ["u.py:4"]


def test_rules_are_told_in_full_but_for_their_code():
    rule = Rule(id="a", title="b", why="c", bad="d", good="e", sources=("s",), check=list)
    (told,) = json.loads(json.dumps(rules_document([rule])))["rules"]
    assert told == {"id": "a", "title": "b", "why": "c", "bad": "d", "good": "e", "sources": ["s"]}
