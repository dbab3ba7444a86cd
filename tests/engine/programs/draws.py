"""Hypothesis strategies for programs: plain values first, so that what breaks a law shrinks to a few words."""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.engine.programs.exact import COVERED
from tests.engine.programs.program import POISONS, Action, Block, Call, Epoch, Micro, Mode, Program, Reload, Scale, Setup
from tests.engine.programs.world import MODELS, OPTIMIZERS, SCHEDULERS, WEIGHTS

T = TypeVar("T")
POLICIES = ("fp32", "bf16", "fp16", "bf16-master", "fp16-master", "bf16-pure")
"""Every policy that programs are drawn for."""
GAINS = (12, 130, 40, 100, 130, 6, -40, -120)


@st.composite
def programs(draw: st.DrawFn, policy: str) -> Program:
    """Any program under `policy`: a setup, and up to seven actions on it."""
    setup = draw(setups(policy))
    return Program(setup, draw(_tuples(_actions(setup), (1, 2, 3, 4, 5, 6, 7))))


def _tuples(each: st.SearchStrategy[T], lengths: tuple[int, ...]) -> st.SearchStrategy[tuple[T, ...]]:
    """Tuples of every length alike; lists would mostly be short."""
    return st.sampled_from(lengths).flatmap(lambda n: st.tuples(*[each] * n))


@st.composite
def setups(draw: st.DrawFn, policy: str) -> Setup:
    """Anything that an update can be built from."""
    model, loss_is = draw(st.sampled_from((*COVERED, *MODELS))), draw(st.sampled_from(("mean", "sum", "share")))
    weights = ("scored", "declared") if model in ("tokens", "tied") else ("examples", "declared", "scored")
    scheduler = draw(st.none() | st.sampled_from(tuple(SCHEDULERS)))
    every = st.tuples(st.sampled_from(("examples", "tokens")), st.integers(1, 9))
    clock: Any = "completed" if scheduler is None else draw(st.sampled_from(("completed", "attempt", "epoch")) | every)
    return Setup(
        model=model,
        policy=policy,
        optimizer=draw(st.sampled_from(tuple(OPTIMIZERS))),
        second=draw(st.none() | st.sampled_from(tuple(OPTIMIZERS))),
        groups=draw(st.sampled_from((1, 2))),
        given=draw(st.sampled_from(("itself", "function"))) if policy not in WEIGHTS else "function",
        loss_is=loss_is,
        weights="examples" if loss_is == "share" else draw(st.sampled_from(weights)),
        scale=draw(st.none() | _scales() | _scales()),
        clip=draw(st.none() | st.tuples(st.sampled_from(("norm", "value")), st.sampled_from((1.0, 0.1, 1e-3, 100.0, 1e-20)))),
        scheduler=scheduler,
        clock=clock,
        incurable=draw(st.sampled_from(("keep", "backoff"))),
        max_consecutive_skips=draw(st.sampled_from((None, None, 1, 2, 3))),
        tokens=clock[0] == "tokens" or draw(st.booleans()),
        seed=draw(st.integers(0, 99)),
    )


@st.composite
def _scales(draw: st.DrawFn) -> Scale:
    kind = draw(st.sampled_from(("dynamic", "dynamic", "static", "none")))
    if kind == "none":
        return Scale(kind="none", init=1.0)
    if kind == "static":
        return Scale(kind="static", init=draw(st.sampled_from((1024.0, 2.0**-20, 1.0, 1000.0, 2.0**-100, 2.0**40, 2.0**127))))
    low, above, room = (
        draw(st.sampled_from((-16, 0, 4, -100))),
        draw(st.sampled_from((6, 0, 1, 20, 100))),
        draw(st.integers(0, 3)),
    )
    return Scale(
        init=2.0 ** (low + above) * draw(st.sampled_from((1.0, 1.0, 1.5))),
        interval=draw(st.sampled_from((1, 2, 3, 2000))),
        growth=draw(st.sampled_from((2.0, 2.0, 1.5, 2.0**30))),
        backoff=draw(st.sampled_from((0.5, 0.5, 0.3, 2.0**-20))),
        low=low,
        high=draw(st.sampled_from((None, low + above + 1 + room))),
    )


def _micros(setup: Setup) -> st.SearchStrategy[Micro]:
    sizes = (2, 3, 4) if setup.model == "batchnorm" else (2, 1, 3, 5)
    poisons = st.sampled_from(("",) * 16 + ("gain",) + ("spike",) * 4 + POISONS)
    return st.builds(
        Micro,
        size=st.sampled_from(sizes),
        seed=st.integers(0, 99),
        poison=poisons,
        gain=st.sampled_from(GAINS),
        weight=st.sampled_from((1.0, 2.0, 0.0, 3.0, 0.1, 1e-3, 300.0, 1e6)),
        scored=st.sampled_from((True,) * 5 + (setup.weights != "scored",)),
    )


def _actions(setup: Setup) -> st.SearchStrategy[Action]:
    windows = _tuples(_micros(setup), (1, 2, 3, 4))
    often = st.builds(
        Call,
        window=windows,
        ends_epoch=st.booleans(),
        again=st.sampled_from((False, True, True)),
        step_raises=st.sampled_from((False,) * 5 + (True,)),
    )
    blocks = st.builds(
        Block,
        window=windows,
        total=st.booleans(),
        told=st.sampled_from(("microbatch", "counts", "nothing")),
        raises_at=st.none() | st.none() | st.integers(0, 8),
        ends_epoch=st.booleans(),
    )
    epochs = st.builds(Epoch, microbatches=_tuples(_micros(setup), (1, 2, 3, 5)), size=st.integers(1, 3))
    return st.one_of(often, often, often, blocks, blocks, epochs, st.just(Reload()), st.builds(Mode, training=st.booleans()))
