"""Labs and laws see an engine with one thing left out: docs/mutations.md says which, and this holds it to that."""

import pytest

from tests.labs.mutations import MUTATIONS, ROOT, Edit, Mutation, copied, watch
from tests.labs.mutations_table import PAGE, everything, read, row_of, text
from tests.profile import FULL

ROWS = read(PAGE.read_text(encoding="utf-8"))


def test_the_page_is_what_its_script_writes_of_its_rows():
    assert PAGE.read_text(encoding="utf-8") == text(ROWS)
    assert list(ROWS) == list(MUTATIONS)


def test_each_is_seen_by_a_lab():
    assert [name for name, row in ROWS.items() if not row.labs] == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_left_out_is_seen_by_the_first_lab_and_by_the_test_of_its_row(name, tmp_path):
    row = ROWS[name]
    seen = watch(copied(tmp_path, MUTATIONS[name]), row.labs[:1], [str(ROOT / row.test)])
    assert {*seen.failed} == {*row.labs[:1], row.test}


def test_they_see_nothing_where_nothing_is_left_out(tmp_path):
    labs, tests = {lab for row in ROWS.values() for lab in row.labs[:1]}, {row.test for row in ROWS.values()}
    seen = watch(copied(tmp_path, None), sorted(labs), sorted(str(ROOT / test) for test in tests))
    assert {*seen.ran} == labs | tests
    assert not seen.failed


def test_what_is_not_there_cannot_be_left_out(tmp_path):
    absent = Edit(file="engine/clock.py", old="tock", new="")
    with pytest.raises(AssertionError, match="has this 0 times"):
        copied(tmp_path, Mutation(does="nothing", edits=(absent,)))


@pytest.mark.skipif(not FULL, reason="all labs and all laws, eight times over: minutes")
def test_every_lab_and_every_law_says_what_the_page_says():
    found = everything()
    assert not found.pop(None).failed
    for name, seen in found.items():
        row = row_of(seen)
        assert {*row.labs} == {*ROWS[name].labs}, name
        assert {*row.laws} == {*ROWS[name].laws}, name
