"""Checkpoints that a run cannot be resumed from as it was: without the scaler, inside a window, or not restored whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from truestep.audit.beside import beside, companion
from truestep.audit.events import Loaded, Restored, Saved, Stepped, Updated
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.reading.restores import unreached
from truestep.audit.site import Site
from truestep.audit.story import Story
from truestep.audit.windows import on


def check(story: Story) -> Iterator[Finding]:
    """Saves without the scaler's state, saves of an open window, and loads that leave the scaler's state unused."""
    yield from _without_scaler(story)
    yield from _open_window(story)
    yield from _not_restored(story)


def _without_scaler(story: Story) -> Iterator[Finding]:
    """An optimizer's state is saved, and no scaler's anywhere in the run."""
    if any(event.scalers for event in story.of(Saved)):
        return
    for saved in story.of(Saved):
        moves = [event for event in story.of(Updated) if event.order < saved.order and on(story, event.scaler)]
        if not saved.optimizers or not moves:
            continue
        made = story.scalers.get(moves[-1].scaler)
        jump = (
            ""
            if made is None or made.scale == moves[-1].after
            else f": it was {moves[-1].after:g} and starts at {made.scale:g} again"
        )
        yield found(
            saved.site,
            f"the checkpoint holds the optimizer's state and not the scaler's, so that a resumed run loses the loss scale{jump}",
            severity="warning",
            evidence=_after(story, saved.order),
            fix='save "scaler": scaler.state_dict() beside the optimizer\'s, and load it',
        )
        restored = _restored(story, saved.order)
        yield from companion(saved.site, None if restored is None else restored.site, "here an optimizer is restored, no scaler")


def _restored(story: Story, order: int) -> Restored | None:
    return next((event for event in story.of(Restored) if event.order > order and event.what == "optimizer"), None)


def _after(story: Story, order: int) -> tuple[str, ...]:
    """What a run that was resumed within the same process lost."""
    restored = _restored(story, order)
    if restored is None:
        return ()
    steps = [step for step in story.of(Stepped) if step.order > restored.order and step.optimizer == restored.which]
    lost = sum(not step.completed for step in steps)
    return (f"after the optimizer was restored {lost} of {len(steps)} attempts were skipped",) if lost else ()


def _open_window(story: Story) -> Iterator[Finding]:
    """Gradients were waiting that a later step used, or that the resumed run's first one lacked; nothing saves them."""
    for saved in story.of(Saved):
        waiting = set(saved.open)
        step = next((each for each in story.of(Stepped) if each.order > saved.order and waiting & set(each.backwards)), None)
        lacking = None if step is not None else _lacking(story, saved)
        if not saved.optimizers or (step is None and lacking is None):
            continue
        number, size = (len(waiting), lacking) if step is None else (len(waiting & set(step.backwards)), len(step.backwards))
        yield found(
            saved.site if step is None else beside(saved.site, step.site),
            f"the checkpoint was written while {number} of {size} microbatches waited for the step: a run that resumes from it"
            " never uses their gradients",
            severity="warning",
            fix="save after the step, when no gradients wait",
        )


def _lacking(story: Story, saved: Saved) -> int | None:
    """The size of windows, where the first one after a resume within the same process was as much shorter as gradients waited."""
    restored = _restored(story, saved.order)
    steps = [] if restored is None else [step for step in story.of(Stepped) if step.optimizer == restored.which]
    first = next((step for step in steps if restored is not None and step.order > restored.order), None)
    (size, _), *_ = Counter(len(step.backwards) for step in story.of(Stepped)).most_common(1) or [(0, 0)]
    return size if first is not None and saved.open and len(first.backwards) + len(saved.open) == size else None


def _not_restored(story: Story) -> Iterator[Finding]:
    """The checkpoint held a scaler's state, the optimizer was restored from it, and the scaler was not."""
    for loaded in story.of(Loaded):
        later = [event for event in story.of(Restored) if event.order > loaded.order]
        optimizers = [event for event in later if event.what == "optimizer"]
        if not loaded.scalers or not optimizers or any(event.what == "scaler" for event in later):
            continue
        which = {event.which for event in optimizers}
        steps = [
            step for step in story.of(Stepped) if step.order > loaded.order and step.optimizer in which and on(story, step.scaler)
        ]
        if not steps:
            continue
        lost = sum(not step.completed for step in steps)
        test = unreached(story.sources, optimizers[0].site, [event.site for event in story.of(Restored)])
        yield found(
            optimizers[0].site if test is None else Site(place=test),
            "the checkpoint holds the scaler's state, and it was not restored"
            + ("" if test is None else ": this test kept the line that restores it from running"),
            severity="warning",
            evidence=(f"after the optimizer was restored {lost} of {len(steps)} attempts were skipped",) if lost else (),
            fix="call scaler.load_state_dict with what was saved",
        )
        other = loaded.site if test is None else optimizers[0].site
        yield from companion(optimizers[0].site if test is None else Site(place=test), other, "here the checkpoint is restored")


RULE = Rule(
    id="resume",
    title="a resumed run does not go on as it was",
    why=(
        "Without its state the scaler starts anew, and skips until it has found the scale again; gradients of an"
        " open window are lost."
    ),
    bad='torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)',
    good='torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, path)',
    sources=(
        "https://github.com/facebookresearch/detectron2/pull/3686",
        "https://github.com/huggingface/transformers/pull/11663",
    ),
    check=check,
)
