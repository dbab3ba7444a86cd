"""Running a program on the engine and on the reference at once, and holding every attempt against the laws."""

from __future__ import annotations

import io
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

import truestep
from tests.engine.programs.exact import COVERED, gradient_and_bound, telling
from tests.engine.programs.laws import LAWS, Evidence, Exact, clips
from tests.engine.programs.program import Action, Block, Call, Epoch, Mode, Program, Reload, Setup
from tests.engine.programs.reference import Ask, Forecast, Reference
from tests.engine.programs.snapshot import differences, taken
from tests.engine.programs.world import FACTORS, Batch, UserError, batches, build, join, parameters, scored, weight_of
from truestep.ledger import outcomes

Tally = Counter[str]


class Engine:
    """truestep's side of a program."""

    def __init__(self, setup: Setup, *, seed: int | None = None) -> None:
        self.setup, self.world = setup, build(setup, seed=seed)
        clip = (
            None if setup.clip is None else {"norm": truestep.ClipNorm, "value": truestep.ClipValue}[setup.clip[0]](setup.clip[1])
        )
        clock = setup.clock if isinstance(setup.clock, str) else truestep.Every(**dict([setup.clock]))
        by_function = setup.given == "function"
        self.update: truestep.Update[Batch] = truestep.Update(
            self.world.model,
            self.world.train_by if by_function else self.world.train_by(parameters(setup, self.world.model)),
            loss=self.world.loss,
            loss_is=setup.loss_is,
            weight=None if setup.weights == "examples" else lambda batch: weight_of(setup, batch),
            check_weight=setup.weights != "declared",
            examples=lambda batch: batch["size"],
            tokens=scored if setup.tokens else None,
            policy=setup.policy,
            scale=None if setup.scale is None else setup.scale.build(),
            allow_underflow=True,
            clip=clip,
            scheduler=(lambda _: self.world.schedule()) if by_function else self.world.schedule(),
            clock=clock,
            incurable=setup.incurable,
            max_consecutive_skips=setup.max_consecutive_skips,
            track_moves=True,
        )
        self.steps: list[int] = []
        self.stepped: list[Tensor | None] = []
        self.step_raises = self.step_raised = False
        self.proven = False
        """Whether a step has come through: the first one alone can be undone."""
        for index, optimizer in enumerate(self.world.optimizers):
            optimizer.register_step_pre_hook(self._before_step)
            optimizer.register_step_post_hook(lambda *_, index=index: self.steps.append(index))

    def reloaded(self) -> Engine:
        """A freshly built twin that goes on where this one stands, by state dicts alone, written and read."""
        file = io.BytesIO()
        with self.update.in_float32():
            torch.save(
                {
                    "model": self.world.model.state_dict(),
                    "optimizers": [each.state_dict() for each in self.world.optimizers],
                    "schedulers": [each.state_dict() for each in self.world.schedulers],
                    "update": self.update.state_dict(),
                },
                file,
            )
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        twin = Engine(self.setup, seed=self.setup.seed + 1)
        twin.world.model.train(self.world.model.training)
        with twin.update.in_float32():
            twin.world.model.load_state_dict(saved["model"])
        if hasattr(self.world.model, "calls"):
            twin.world.model.calls = self.world.model.calls  # a plain number, in no state dict
        for kind in ("optimizers", "schedulers"):
            for each, state in zip(getattr(twin.world, kind), saved[kind], strict=True):
                each.load_state_dict(state)
        twin.update.load_state_dict(saved["update"])
        return twin

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """What reaches the optimizer: some change their gradients in place (nesterov by foreach), fused ones divide them."""
        if self.step_raises and optimizer is self.world.optimizers[-1]:
            self.step_raised = True
            raise UserError("in the step")
        divisor = getattr(optimizer, "grad_scale", None)
        for group in optimizer.param_groups:
            for p in group["params"]:
                self.stepped.append(p.grad if p.grad is None or divisor is None else p.grad / divisor)
        self.stepped = [None if g is None else g.clone() for g in self.stepped]

    def make(self, ask: Ask, window: list[Batch]) -> tuple[truestep.Outcome | None, Exception | None]:
        """One attempt, as a call or as a block."""
        self.steps, self.stepped, self.step_raises = [], [], ask.step_raises
        self.step_raised = False
        self.world.backwards.clear()
        self.world.dtypes.clear()
        try:
            return (self._block(ask) if ask.block else self.update(window)), None
        except truestep.errors.SkipLimitError as error:
            return error.outcome, error
        except Exception as error:
            return None, error

    def _block(self, ask: Ask) -> truestep.Outcome:
        weights = [weight_of(self.setup, batch) for batch in ask.batches]
        total = sum(w or 0.0 for w in weights) if ask.total and self.setup.loss_is != "share" else None
        with self.update.attempt(total=total, ends_epoch=ask.ends_epoch) as attempt:
            for index, (batch, weight) in enumerate(zip(ask.batches, weights, strict=True)):
                _raise_at(ask, 2 * index)
                with attempt.autocast():
                    loss = self.world.loss(self.world.model, batch)
                _raise_at(ask, 2 * index + 1)
                if ask.told == "microbatch":
                    attempt.backward(loss, microbatch=batch)
                elif ask.told == "counts":
                    tokens = scored(batch) if self.setup.tokens else None
                    attempt.backward(loss, weight, examples=batch["size"], tokens=tokens)
                else:
                    attempt.backward(loss, weight)
            _raise_at(ask, 2 * len(ask.batches))
        return attempt.outcome


def _raise_at(ask: Ask, point: int) -> None:
    if ask.raises_at is not None and (ask.raises_at == point or point == 2 * len(ask.batches) <= ask.raises_at):
        raise UserError("in the block")


def hold(program: Program, tally: Tally | None = None) -> None:
    """Run `program`; AssertionError with every law that an attempt broke. Counts into `tally` what it came by."""
    tally = Counter() if tally is None else tally
    with torch.random.fork_rng(), tempfile.TemporaryDirectory(dir=_memory()) as folder:
        torch.manual_seed(program.setup.seed)
        engine, reference = Engine(program.setup), Reference(program.setup)
        kept: list[truestep.Counts] = []
        with truestep.Ledger(Path(folder) / "run.jsonl", environment={}) as ledger:
            for number, action in enumerate(program.actions):
                tally[f"action {type(action).__name__}"] += 1
                if isinstance(action, Reload):
                    engine = engine.reloaded()
                elif isinstance(action, Mode):
                    engine.world.model.train(action.training)
                    reference.world.model.train(action.training)
                else:
                    for ask, window in _asks(program.setup, action):
                        evidence = _attempt(engine, reference, ask, window, again=getattr(action, "again", False))
                        if evidence.outcome is not None:
                            ledger.record(evidence.outcome)
                            kept.append(evidence.outcome.counts)
                        _count(tally, evidence)
                        _judge(evidence, f"action {number}, {action}")
                        reference.adopt(engine.world)
                        engine.proven |= evidence.completed
                        if evidence.raised_in_step and engine.proven:
                            return  # an update that was stepped halfway may refuse to go on
        assert [outcome.counts for outcome in outcomes(ledger.path)] == kept, "law_3_counts: read back from disk they differ"


def _judge(evidence: Evidence, where: str) -> None:
    broken = {}
    for law in LAWS:
        try:
            law(evidence)
        except AssertionError as error:
            broken[law.__name__] = str(error)
    lines = "\n  ".join(f"{name}: {what}" for name, what in broken.items())
    assert not broken, f"{where} broke {len(broken)} laws\n  {lines}"


def _asks(setup: Setup, action: Action) -> Iterator[tuple[Ask, list[Batch]]]:
    """The windows of an action, each with what it should be."""
    if isinstance(action, Epoch):
        cut = range(0, len(action.microbatches), action.size)
        chunks = [batches(setup, action.microbatches[start : start + action.size]) for start in cut]
        for index, window in enumerate(truestep.windows([batch for chunk in chunks for batch in chunk], action.size)):
            yield Ask(batches=chunks[index], ends_epoch=index == len(chunks) - 1), window
    elif isinstance(action, Block):
        made = batches(setup, action.window)
        yield (
            Ask(
                batches=made,
                block=True,
                total=action.total,
                told=action.told,
                raises_at=action.raises_at,
                ends_epoch=action.ends_epoch,
            ),
            made,
        )
    elif isinstance(action, Call):
        window: truestep.Window[Batch] = truestep.Window(batches(setup, action.window))
        window.ends_epoch = action.ends_epoch
        yield Ask(batches=list(window), ends_epoch=action.ends_epoch, step_raises=action.step_raises), window


def _attempt(engine: Engine, reference: Reference, ask: Ask, window: list[Batch], *, again: bool) -> Evidence:
    """One attempt of both, and all that the laws look at."""
    start = torch.get_rng_state()
    forecast = reference.forecast(ask)
    exact = _exact(engine, reference, ask, forecast, again=again)
    torch.set_rng_state(start)
    factor = FACTORS.get(engine.setup.scheduler or "", lambda ticks: 1.0)(reference.ticks)
    lr = _rates(engine, factor)
    before, scale = taken(engine.world), reference.scale
    outcome, error = engine.make(ask, window)
    random, gradients = torch.get_rng_state(), engine.stepped
    gradients += [None] * (len(engine.world.stepped) - len(gradients) if engine.steps else 0)  # of optimizers left out
    ticks = 0
    if outcome is not None:
        reason = None if outcome.skip is None else outcome.skip.reason
        curable = forecast.curable if forecast.curable is not None else bool(outcome.skip and outcome.skip.curable)
        ticks = reference.commit(ask, forecast, reason, gradients, curable=curable)
    after = taken(engine.world)
    left = sum(p.grad is not None for p in (*engine.world.model.parameters(), *engine.world.stepped))
    steps, backwards, dtypes, raised = (
        list(engine.steps),
        len(engine.world.backwards),
        set(engine.world.dtypes),
        engine.step_raised,
    )
    torn = engine.proven and raised
    torn = torn and any(name.startswith(("parameter", "master", "state")) for name in differences(before, after))
    refusal = engine.make(Ask(batches=ask.batches), ask.batches)[1] if torn else None
    torch.set_rng_state(random)
    return Evidence(
        setup=engine.setup,
        ask=ask,
        forecast=forecast,
        reference=reference,
        update=engine.update,
        outcome=outcome,
        error=error,
        before=before,
        after=after,
        should=taken(reference.world),
        gradients=gradients,
        left=left,
        raised_in_step=raised,
        torn=torn,
        refusal=refusal,
        formats={p.dtype for p in engine.world.model.parameters()},
        steps=steps,
        backwards=backwards,
        dtypes=dtypes,
        random=random,
        ticks=ticks,
        lr=lr,
        scale=scale,
        window=window,
        exact=[split._replace(found=gradients) if index == 0 else split for index, split in enumerate(exact)],
    )


def _rates(engine: Engine, factor: float) -> tuple[float, ...]:
    """The learning rates by closed form: what the optimizer was built with, times the schedule's factor."""
    groups = [group for optimizer in engine.world.optimizers for group in optimizer.param_groups]
    return tuple(float(group.get("initial_lr", group["lr"])) * factor for group in groups)


def _exact(engine: Engine, reference: Reference, ask: Ask, forecast: Forecast, *, again: bool) -> list[Exact]:
    """The definition's gradient where a bound has been derived; `again`: a twin's too, from the same examples in one piece."""
    setup = engine.setup
    clean = all(batch["poison"] in ("", "gain") for batch in ask.batches) and setup.model in COVERED
    if not (clean and forecast.completes) or clips(setup, forecast):
        return []
    model = reference.world.model
    found = [Exact([], *gradient_and_bound(setup, model, ask.batches, 1.0 / forecast.unit))]
    if not all(bool(bound.isfinite().all()) for bound in found[0].bounds):
        return []  # so far from anything sound that the bound itself overflows
    if again and setup.weights != "declared" and all(scored(batch) and not batch["gain"] for batch in ask.batches):
        joined, twin = join(ask.batches), engine.reloaded()
        outcome, error = twin.make(Ask(batches=[joined]), [joined])
        assert error is None, f"the same examples in one microbatch: {error!r}"
        if outcome is not None and outcome.completed:
            found.append(Exact(twin.stepped, *gradient_and_bound(setup, model, [joined], reference.scale)))
    return found


def _count(tally: Tally, e: Evidence) -> None:
    """What this attempt adds to the knowledge that programs are not trivial."""
    tally["attempts"] += e.outcome is not None
    tally["exception in a step, undone"] += e.raised_in_step and not e.torn
    tally["exception in a step, refused to go on"] += e.torn
    if e.outcome is None:
        tally[f"exception {type(e.error).__name__}"] += 1
        return
    what = "completed" if e.completed else "skipped"
    tally[what] += 1
    for name in ("policy", "optimizer", "model", "loss_is", "weights"):
        tally[f"{name} {getattr(e.setup, name)}: {what}"] += 1
    if e.outcome.skip is not None:
        tally[f"skip {e.outcome.skip.reason}{', curable' if e.outcome.skip.curable else ''}"] += 1
        tally["skip whose reason was certain"] += len(e.forecast.reasons) == 1
    else:
        tally["clipped"] += e.forecast.completes and clips(e.setup, e.forecast)
        tally["held against the definition"] += bool(e.exact)
        tally["held against the definition, tellingly"] += bool(e.exact) and telling(*e.exact[0][1:])
        tally["two splits held against the definition"] += len(e.exact) > 1
        tally["scale grew"] += e.outcome.next_loss_scale > e.outcome.loss_scale
        tally["short or weightless microbatch"] += any(f == 0.0 for f in e.forecast.factors)
    tally["scale shrank"] += e.outcome.next_loss_scale < e.outcome.loss_scale
    tally["ticks"] += e.ticks
    tally["limit of skips reached"] += isinstance(e.error, truestep.errors.SkipLimitError)


def _memory() -> str | None:
    """A folder in memory where there is one: a ledger of a few lines waits for no disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
