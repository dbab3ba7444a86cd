"""`truestep formats`: the printed table is the table."""

import json

import pytest
import torch

from truestep.cli import main
from truestep.formats import BLOCKS, FORMATS


def printed(capsys, *arguments):
    assert main(["formats", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_document_holds_every_field_and_figure_unrounded(capsys):
    document = json.loads(printed(capsys, "--json"))
    assert list(document) == ["schema", "formats", "blocks"]
    assert [row["name"] for row in document["formats"]] == list(FORMATS)
    for row in document["formats"]:
        dtype = row.pop("torch")
        assert row == {field: getattr(FORMATS[row["name"]], field) for field in row}
        assert dtype is None or torch.finfo(getattr(torch, dtype)).bits == row["bits"]
    assert {row["name"]: row["bits_per_element"] for row in document["blocks"]} == {
        name: block.bits_per_element for name, block in BLOCKS.items()
    }


def test_a_row_tells_the_figures_as_people_write_them(capsys):
    rows = {line.split()[0]: line.split()[1:] for line in printed(capsys).splitlines() if line}
    assert rows["fp16"] == ["1/5/10", "65504", "2^-14", "2^-24", "2^-10", "2046", "infinity", "float16"]
    assert rows["tf32"] == ["1/8/10", "3.4012e+38", "2^-126", "2^-136", "2^-10", "2046", "infinity", "-"]
    assert rows["e4m3fn"] == ["1/4/3", "448", "2^-6", "2^-9", "0.125", "2", "saturate", "float8_e4m3fn"]
    assert rows["e8m0"] == ["0/8/0", "2^127", "2^-127", "2^-127", "1", "1", "nan", "float8_e8m0fnu"]
    assert rows["mxfp4-e2m1"] == ["e2m1", "e8m0", "32", "4.25"]
    assert set(FORMATS) | set(BLOCKS) <= set(rows)


def test_without_a_terminal_the_lines_are_plain(capsys):
    assert "\x1b" not in printed(capsys)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_on_a_terminal_nothing_is_cut_off_and_nothing_is_coloured(capsys, monkeypatch, columns):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    out = printed(capsys)
    assert "…" not in out
    assert "\x1b[3" not in out
    assert "\x1b[1m" in out  # bold headings say that rich took it for a terminal
    assert max(len(line) for line in out.splitlines() if line.startswith("fp32")) <= max(80, columns)
