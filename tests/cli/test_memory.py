"""`truestep memory`: tables or one document, and what cannot be asked as exit code 2."""

import json

import pytest

from truestep.cli import main


def test_a_number_of_parameters_prints_every_stage(capsys):
    assert main(["memory", "--params", "7.5e9", "--policy", "fp16-master", "--shards", "64"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(figure in out for figure in ("120", "31.4", "16.6", "1.88", "GB is 10^9", "GiB is 2^30"))


def test_a_task_prints_predicted_beside_measured_and_nothing_of_the_profiler(capfd):
    assert main(["memory", "logistic", "--policy", "bf16", "--device", "cpu"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert "predicted" in out.splitlines()[1]
    assert "Autocast does not halve memory" in out


def test_json_is_one_document(capsys):
    assert main(["memory", "logistic", "--predict", "--accumulate", "2", "--policy", "fp32", "--device", "cpu", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["microbatches"], document["measured"]) == ("footprint", 2, None)
    assert main(["memory", "--params", "350M", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == 350_000_000


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["digits", "--params", "1"],
        ["digits", "--shards", "2"],
        ["digits", "--accumulate", "0"],
        ["nothing"],
        ["--params", "0"],
        ["--params=-5"],
        ["--params", "1", "--optimizer", "x"],
        ["--params", "1", "--shards", "0"],
        ["--params", "1", "--predict"],
        ["--params", "1", "--device", "cpu"],
        ["--params", "1", "--seed", "1"],
    ],
)
def test_what_cannot_be_asked_ends_with_2(words, capsys):
    assert main(["memory", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "hint:" in err
