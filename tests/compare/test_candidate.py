"""Candidates on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truestep import errors
from truestep.compare import Candidate
from truestep.run.faults import FAULTS

NUMBERS = st.floats(1e-30, 1e30)
CANDIDATES = st.builds(
    Candidate,
    underflow=st.none(),
    policy=st.sampled_from(["fp32", "tf32", "bf16", "fp16", "bf16-master"]),
    scale=st.none() | st.sampled_from(["none", "dynamic", "dynamic:1024", "static:0.5", "static:65536"]),
    accumulate=st.none() | st.integers(1, 4096),
    clip=st.none() | NUMBERS,
    clock=st.none() | st.sampled_from(["completed", "attempt", "epoch", "examples:100", "tokens:7"]),
    fault=st.none() | st.sampled_from(sorted(FAULTS)),
    optimizer=st.dictionaries(
        st.sampled_from(["lr", "weight_decay", "betas", "eps", "amsgrad", "beta2_decay"]),
        st.booleans() | st.floats(-1e30, 1e30) | st.tuples(NUMBERS, NUMBERS),
    ).map(lambda options: tuple(sorted(options.items()))),
    again=st.booleans(),
) | st.builds(Candidate, policy=st.just("fp16"), scale=st.just("none"), underflow=st.just("allowed"))


@given(CANDIDATES)
def test_what_is_written_reads_back_as_itself(candidate):
    assert Candidate.parse(str(candidate)) == candidate


@given(CANDIDATES)
def test_a_slug_is_a_plain_part_of_a_file_name(candidate):
    assert set(candidate.slug) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


def test_equal_candidates_write_alike_whatever_their_order_spaces_and_zeros():
    assert str(Candidate.parse(" fp16  clip=1.0 scale=static:1024.00 ")) == "fp16 scale=static:1024 clip=1"


def test_every_key_is_read():
    text = "fp16 scale=dynamic:1024 accumulate=8 clip=0.5 clock=examples:100 lr=0.1 optimizer.nesterov=true fault=none again"
    assert Candidate.parse(text) == Candidate(
        policy="fp16",
        scale="dynamic:1024",
        accumulate=8,
        clip=0.5,
        clock="examples:100",
        optimizer=(("lr", 0.1), ("nesterov", True)),
        fault="none",
        again=True,
    )


def test_an_option_has_one_writing_whichever_way_it_was_asked_for():
    assert str(Candidate.parse("fp32 optimizer.lr=1e-1 optimizer.betas=0.90,1.0")) == "fp32 optimizer.betas=0.9,1 lr=0.1"


def test_only_a_candidate_with_a_fault_demonstrates_one():
    assert Candidate.parse("fp32 clip=1").demonstrates is None
    assert Candidate.parse("fp32 fault=loss-not-divided").demonstrates is FAULTS["loss-not-divided"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "begins with a policy"),
        ("   ", "begins with a policy"),
        ("scale=none", "begins with a policy"),
        ("fp16/../x", "begins with a policy"),
        ("fp16 rate=0.1", "'rate' is no key"),
        ("fp16 1024", "'1024' is no key"),
        ("fp16 clip", "'clip' is no key"),
        ("fp16 lr", "'lr' is no key"),
        ("fp16 optimizer.=1", "'optimizer.' is no key"),
        ("fp16 optimizer.a-b=1", "'optimizer.a-b' is no key"),
        ("fp16 lr=", "lr= says nothing"),
        ("fp16 lr=fast", "lr=fast says nothing"),
        ("fp16 lr=inf", "lr=inf says nothing"),
        ("fp16 optimizer.betas=0.9,", "optimizer.betas=0.9, says nothing"),
        ("fp16 lr=0.1 optimizer.lr=0.2", "'lr' stands twice"),
        ("fp16 fault=gremlin", "fault=gremlin says nothing"),
        ("fp16 again=1", "'again' is no key"),
        ("fp16 clip=1 clip=2", "'clip' stands twice"),
        ("fp16 again again", "'again' stands twice"),
        ("fp16 scale=off", "scale=off says nothing"),
        ("fp16 scale=none:1", "scale=none:1 says nothing"),
        ("fp16 scale=static", "scale=static says nothing"),
        ("fp16 scale=static:0", "scale=static:0 says nothing"),
        ("fp16 scale=static:inf", "scale=static:inf says nothing"),
        ("fp16 scale=dynamic:-1", "scale=dynamic:-1 says nothing"),
        ("fp16 accumulate=0", "accumulate=0 says nothing"),
        ("fp16 accumulate=2.5", "accumulate=2.5 says nothing"),
        ("fp16 clip=nan", "clip=nan says nothing"),
        ("fp16 clip=", "clip= says nothing"),
        ("fp16 clock=step", "clock=step says nothing"),
        ("fp16 clock=examples", "clock=examples says nothing"),
        ("fp16 scale=none underflow=yes", "underflow=yes says nothing"),
        ("fp16 underflow=allowed", "underflow=allowed says nothing beside a loss scale"),
        ("fp16 scale=dynamic underflow=allowed", "underflow=allowed says nothing beside a loss scale"),
        ("fp16 clock=epoch:1", "clock=epoch:1 says nothing"),
    ],
)
def test_a_bad_word_is_named_with_what_to_write(text, named):
    with pytest.raises(errors.ProtocolError, match=named) as caught:
        Candidate.parse(text)
    assert caught.value.hint
    assert caught.value.candidate == text
