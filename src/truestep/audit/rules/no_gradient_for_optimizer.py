"""An optimizer whose parameters no backward ever reached."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.beside import companion
from truestep.audit.events import Backward, Cut, OptimizerMade, Raised, Stepped, Zeroed
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Site
from truestep.audit.story import Story

REFUSED = "No inf checks were recorded"
NO_GRAPH = "does not require grad and does not have a grad_fn"
ENOUGH = 2


def check(story: Story) -> Iterator[Finding]:
    """By optimizer: steps without a gradient, or torch's refusal of one, and the line where its graph was cut."""
    raised = next((event for event in story.of(Raised) if REFUSED in event.text or NO_GRAPH in event.text), None)
    for number, made in story.optimizers.items():
        if any(number in event.touched for event in story.of(Backward)) or any(
            event.optimizer == number for event in story.of(Zeroed)
        ):
            continue
        bare = [event for event in story.of(Stepped) if event.optimizer == number and event.bare]
        stepped = [event for event in story.of(Stepped) if event.optimizer == number]
        silent = len(bare) >= ENOUGH and len(bare) == len(stepped)
        if (raised is None or stepped) and not silent:
            continue
        if raised is not None and NO_GRAPH in raised.text and not _cuts(story, number):
            continue
        site, how = _where(story, number, made)
        cuts = _cuts(story, number)
        yield found(
            site,
            f"no backward reached a parameter of the optimizer ({made.kind} at {made.site}): {how}",
            evidence=(f"{raised.kind}: {raised.text.splitlines()[0]}",) if raised is not None and not silent else (),
            severity="error" if raised is not None else "warning",
            fix=_FIXES.get(how, "build the optimizer on the parameters of the model that is trained"),
        )
        yield from companion(site, cuts[-1].site if cuts else None, "here it was cut another time")


def _where(story: Story, number: int, made: OptimizerMade) -> tuple[Site | None, str]:
    cuts = _cuts(story, number)
    return (
        (cuts[0].site, _WORDS[cuts[0].how])
        if cuts
        else (made.site, "it was built on parameters that the loss does not depend on")
    )


def _cuts(story: Story, number: int) -> list[Cut]:
    """Those in front of the optimizer's parameters; where a leaf was made in their place, that comes first."""
    mine = [event for event in story.of(Cut) if number in event.optimizers]
    made = [event for event in story.of(Cut) if event.how == "rebuilt" and not event.optimizers]
    return [event for event in made if not mine or event.order > mine[0].order] or mine


_WORDS = {
    "detached": "the graph was cut by detach here",
    "no_grad": "they were used here only where nothing is differentiated",
    "rebuilt": "a new leaf was made here of a plain number, and the loss hangs on that alone",
    "frozen": "they were frozen here",
}
_FIXES = {
    _WORDS["detached"]: "leave the detach out on the way to the loss",
    _WORDS["no_grad"]: "run them outside of no_grad",
    _WORDS["rebuilt"]: "keep the loss tensor: torch.stack(losses) instead of torch.tensor of numbers",
    _WORDS["frozen"]: "give the optimizer what requires gradients, or leave it out",
}

RULE = Rule(
    id="no-gradient-for-optimizer",
    title="no gradient reaches the optimizer",
    why="The step does nothing, or the scaler refuses: No inf checks were recorded for this optimizer.",
    bad="loss = torch.tensor(loss.item(), requires_grad=True)\nscaler.scale(loss).backward()\nscaler.step(optimizer)",
    good="scaler.scale(loss).backward()\nscaler.step(optimizer)",
    sources=("https://github.com/huggingface/accelerate/issues/328", "https://github.com/open-mmlab/mmsegmentation/issues/3230"),
    check=check,
)
