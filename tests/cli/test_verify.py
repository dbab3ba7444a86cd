"""`truestep verify`: a table for people, one document for programs, and an exit code for both."""

import json

import pytest

from truestep.cli import main


def test_a_task_that_passes_prints_its_verdict_table_and_criterion(capsys):
    assert main(["verify", "logistic", "--policy", "bf16", "--attempts", "2", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("passed: ")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["weight"][1] == rows["bias"][1] == "within"
    assert "u = 2^-8" in out
    assert err == ""


def test_the_document_is_the_record(capsys):
    assert main(["verify", "logistic", "--policy", "fp32", "--accumulate", "2", "--attempts", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["passed"], document["microbatches"], document["attempts"]) == (1, True, 2, 2)
    assert {row["name"] for row in document["rows"]} == {"weight", "bias"}
    assert document["skipped"] == []


def test_a_normalisation_over_the_microbatch_fails_and_is_named(capsys):
    pytest.importorskip("sklearn")
    assert main(["verify", "digits-conv", "--policy", "fp32", "--attempts", "1"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("FAILED: ")
    assert "batch-norm" in out
    assert main(["verify", "digits-conv", "--policy", "fp32", "--attempts", "1", "--accumulate", "1"]) == 0


def test_attempts_that_are_all_skipped_are_no_success(capsys):
    words = ["verify", "logistic", "--policy", "fp16", "--scale", "dynamic:1099511627776", "--attempts", "1"]
    assert main(words) == 1
    assert "no attempt of 1 stepped" in capsys.readouterr().out


def test_the_worst_twenty_are_shown_unless_all_are_wanted(capsys):
    words = ["verify", "bytes-lm", "--policy", "fp32", "--attempts", "1"]
    assert main([*words, "--all"]) == 0
    assert "more (--all)" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere"),
        (["logistic", "--policy", "fp8"], "fp8"),
        (["logistic", "--scale", "big"], "--scale"),
        (["logistic", "--scale", "static:0"], "a VALUE is a number above 0"),
        (["logistic", "--scale", "none accumulate=3"], "is not one word"),
        (["logistic", "--device", "cpu:3"], "cpu:3 is not there"),
        (["logistic", "--attempts", "0"], "0 attempts"),
        (["logistic", "--accumulate", "129"], "129"),
        (["logistic", "--clip", "-1"], "-1"),
        (["logistic", "--device", "abacus"], "abacus"),
    ],
)
def test_what_cannot_be_asked_is_a_usage_error(capsys, words, said):
    assert main(["verify", *words]) == 2
    assert said in capsys.readouterr().err
