"""The line beside the step is the loop's; where a library called what led there, it is what the library called."""

from truestep.audit.beside import beside, companion
from truestep.audit.site import Place, Site

HELPER, LOOP, MAIN = Place("a.py", 3, "blend"), Place("a.py", 9, "on_step"), Place("a.py", 30, "main")


def test_a_helpers_line_is_seen_from_the_function_that_steps():
    assert beside(Site(HELPER, (LOOP, MAIN)), Site(Place("a.py", 8, "on_step"))).place == LOOP


def test_it_goes_no_further_than_the_lines_that_a_library_called():
    step = Site(MAIN, library=Place("lib.py", 1))
    assert beside(Site(HELPER, (LOOP, MAIN), below_library=2), step).place == LOOP
    assert beside(Site(HELPER, (LOOP, MAIN)), step).place == MAIN


def test_a_second_line_is_a_note_where_it_is_another_one_of_the_users():
    assert [(each.severity, each.line) for each in companion(Site(LOOP), Site(HELPER), "here")] == [("note", 3)]
    assert list(companion(Site(LOOP), Site(LOOP), "here")) == []
    assert list(companion(Site(LOOP), Site(HELPER, library=Place("lib.py", 1)), "here")) == []
    assert list(companion(Site(LOOP), None, "here")) == []
