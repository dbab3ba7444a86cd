"""The pages of the labs as text: what links where, what is escaped, what is told before an answer, and how large it is."""

from __future__ import annotations

import copy
import itertools
import json
import re

import pytest

from tests.pages.labs.made import NAMES, record
from tests.pages.reading_html import parsed
from tests.profile import FULL
from truestep.cli import main
from truestep.errors import FileError, RecordError
from truestep.labs.shelf import labs
from truestep.labs.tables.site import site
from truestep.pages.labs import PICTURES, pages, write
from truestep.pages.labs.plan import plan

MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(record(), tmp_path_factory.mktemp("site")).parent


def test_every_page_is_well_formed_and_every_link_leads_to_a_page(folder):
    names = {"index.html"} | {f"{name}.html" for name in NAMES} | {picture.file for picture in PICTURES}
    assert {each.name for each in folder.iterdir()} == names
    for name in names:
        page = parsed(folder / name)
        ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
        assert len(ids) == len(set(ids)), name
        for link in page.all("a"):
            file, _, place = link.attributes["href"].partition("#")
            assert file in names or (not file and place in ids), (name, link)


def test_the_lessons_stand_in_the_order_that_builds_up(folder):
    page = parsed(folder / "index.html")
    listed = [each.attributes["data-lab-done"] for each in page.all("a") if "data-lab-done" in each.attributes]
    assert listed == list(NAMES)
    for before, name in itertools.pairwise(NAMES):
        assert parsed(folder / f"{name}.html").one("a", rel="prev").attributes["href"] == f"{before}.html"
        assert parsed(folder / f"{before}.html").one("a", rel="next").attributes["href"] == f"{name}.html"


def test_each_arrow_of_the_map_is_drawn_and_said_with_its_why(folder):
    page = parsed(folder / "index.html")
    arrows = {(each["lab"], lab["name"]): each["why"] for lab in record()["labs"] for each in lab["after"]}
    for kind in ("path", "li"):
        found = [each for each in page.all(kind) if "data-end" in each.attributes]
        assert {(each.attributes["data-start"], each.attributes["data-end"]) for each in found} == set(arrows)
    said = {
        (each.attributes["data-start"], each.attributes["data-end"]): each.text
        for each in page.all("li")
        if "data-end" in each.attributes
    }
    assert all(why in said[ends] for ends, why in arrows.items())


@pytest.mark.parametrize("columns", [1, 5])
def test_no_two_labs_of_the_map_overlap_and_none_leaves_it(columns):
    drawn = plan(record(), columns=columns)
    boxes = [(node.x, node.y, node.x + drawn.box, node.y + 42) for node in drawn.nodes]
    for number, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert right <= drawn.width
        assert bottom <= drawn.height
        for other in boxes[:number]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_no_answer_and_no_why_stands_among_the_questions(folder):
    for lab in record()["labs"]:
        page = parsed(folder / f"{lab['name']}.html")
        asked = " ".join(each.text for each in page.all("form"))
        assert len(page.all("form")) == len(lab["asks"])
        for ask in lab["asks"]:
            whys = [
                ask.get("why"),
                *(each["why"] for each in ask.get("options", []) + ask.get("items", []) + ask.get("tempting", [])),
            ]
            assert ask["prompt"] in asked
            assert not [why for why in whys if why and why in asked], ask["key"]


def test_the_numbers_shown_are_the_records_own(folder):
    for lab in record()["labs"]:
        values = {each.attributes["value"] for each in parsed(folder / f"{lab['name']}.html").all("data")}
        checks = lab["checks"] + [each["check"] for each in lab["wrong"] + lab["edges"]]
        numbers = [check["measured"] for check in checks if isinstance(check["measured"], float)]
        assert {str(number) for number in numbers} <= values


def test_what_a_lab_says_is_text_and_never_markup(tmp_path):
    poisoned = json.loads(json.dumps(record(), default=str).replace("the", "</script><img src=x onerror=alert(1)>the"))
    poisoned["pictures"] = record()["pictures"]
    poisoned["topics"] = record()["topics"]
    for lab, old in zip(poisoned["labs"], record()["labs"], strict=True):
        lab |= {key: old[key] for key in ("name", "topic")}
        lab["after"] = [each | {"lab": was["lab"]} for each, was in zip(lab["after"], old["after"], strict=True)]
    write(poisoned, tmp_path)
    for path in tmp_path.iterdir():
        assert not parsed(path).all("img"), path.name


def test_a_record_of_something_else_is_refused():
    with pytest.raises(RecordError, match="no record of the labs"):
        pages({"schema": 1, "labs": []})
    with pytest.raises(RecordError):
        pages(copy.copy(record()) | {"schema": 2})


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot make"):
        write(record(), tmp_path / "file" / "site")


def test_a_file_in_place_of_the_folder_is_said_to_be_one(tmp_path):
    (tmp_path / "site").write_text("mine")
    with pytest.raises(FileError, match="site is a file"):
        write(record(), tmp_path / "site")
    assert (tmp_path / "site").read_text() == "mine"


def test_an_older_site_is_written_anew(tmp_path):
    older = tmp_path / f"{NAMES[0]}.html"
    write(record(), tmp_path)
    kept, count = older.read_bytes(), len(list(tmp_path.iterdir()))
    older.write_bytes(kept.replace(b"truestep</", b"trueshtep</"))
    assert write(record(), tmp_path) == tmp_path / "index.html"
    assert (older.read_bytes(), len(list(tmp_path.iterdir()))) == (kept, count)


@pytest.mark.parametrize("name", ["index.html", f"{NAMES[1]}.html"])
def test_a_page_of_somebody_elses_is_not_overwritten_and_nothing_is_written_beside_it(tmp_path, name):
    (tmp_path / name).write_text("<title>My page · mine</title>")
    with pytest.raises(FileError, match=f"{name} is no page of the labs") as raised:
        write(record(), tmp_path)
    assert raised.value.hint == "name an empty folder"
    assert (tmp_path / name).read_text() == "<title>My page · mine</title>"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["index.html", f"{labs()[1].name}.html", PICTURES[0].file])
def test_a_page_of_somebody_elses_is_told_before_any_lab_is_run(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr("truestep.labs.tables.site.site", lambda _: pytest.fail("labs were run"))
    (tmp_path / name).write_text("mine")
    assert main(["labs", "--html", str(tmp_path)]) == 3
    assert "no page of the labs" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_told_before_any_lab_is_run(tmp_path, capsys, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("truestep.disk.atomic.prove_writable", refused)
    monkeypatch.setattr("truestep.labs.tables.site.site", lambda _: pytest.fail("labs were run"))
    assert main(["labs", "--html", str(tmp_path)]) == 3
    err = capsys.readouterr().err
    assert "index.html cannot be written: Permission denied" in err
    assert "name a folder that can be written to" in err


def test_html_goes_with_no_name_and_no_json(capsys):
    assert main(["labs", "clip-order", "--html", "somewhere"]) == 2
    assert main(["labs", "--json", "--html", "somewhere"]) == 2
    assert capsys.readouterr().err.count("the pages of all labs") == 2


def test_the_site_of_all_labs_stays_small(folder):
    if FULL:
        sizes = [len(html.encode()) for html in pages(site(labs())).values()]
        assert sum(sizes) < MOST_BYTES
        return
    of_labs = [(folder / f"{name}.html").stat().st_size for name in NAMES]
    others = sum(each.stat().st_size for each in folder.iterdir()) - sum(of_labs)
    assert others + max(of_labs) * len(labs()) < MOST_BYTES


def test_no_script_rounds_in_a_format_or_reaches_out(folder):
    for path in folder.iterdir():
        script = parsed(path).all("script")[-1].text
        assert not re.search(
            r"fround|Float16Array|Float32Array|f16round|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org)", script
        ), path.name
