"""Hypothesis strategies for programs: plain values first, so that what breaks a law shrinks to a few words."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.engine.programs.exact import COVERED
from tests.engine.programs.program import POISONS, Action, Block, Call, Epoch, Micro, Mode, Program, Reload, Scale, Setup
from tests.engine.programs.world import MODELS, OPTIMIZERS, SCHEDULERS

POLICIES = ("fp32", "bf16", "fp16")
"""Every policy that programs are drawn for."""
GAINS = (6, 12, 40, 100, 120, -40, -120)


@st.composite
def programs(draw: st.DrawFn, policy: str) -> Program:
    """Any program under `policy`: a setup, and up to six actions on it."""
    setup = draw(setups(policy))
    return Program(setup, tuple(draw(st.lists(_actions(setup), min_size=1, max_size=6))))


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
        groups=draw(st.sampled_from((1, 2))),
        loss_is=loss_is,
        weights="examples" if loss_is == "share" else draw(st.sampled_from(weights)),
        scale=draw(st.none() | _scales()),
        clip=draw(
            st.none() | st.none() | st.tuples(st.sampled_from(("norm", "value")), st.sampled_from((1.0, 0.1, 1e-3, 100.0, 1e-20)))
        ),
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
        return Scale(kind="static", init=draw(st.sampled_from((1024.0, 1.0, 1000.0, 2.0**-20, 2.0**-100, 2.0**40, 2.0**127))))
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
    poisons = st.sampled_from(("",) * 12 + POISONS)
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
    windows = st.lists(_micros(setup), min_size=1, max_size=4).map(tuple)
    often = st.builds(Call, window=windows, ends_epoch=st.booleans(), again=st.sampled_from((False, True, True)))
    blocks = st.builds(
        Block,
        window=windows,
        total=st.booleans(),
        told=st.sampled_from(("microbatch", "counts", "nothing")),
        raises_at=st.none() | st.none() | st.integers(0, 8),
        ends_epoch=st.booleans(),
    )
    epochs = st.builds(Epoch, microbatches=st.lists(_micros(setup), min_size=1, max_size=5).map(tuple), size=st.integers(1, 3))
    return st.one_of(often, often, often, blocks, blocks, epochs, st.just(Reload()), st.builds(Mode, training=st.booleans()))
