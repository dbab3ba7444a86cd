"""What limits a comparison, each in a sentence with its numbers: the footers of the table and the page. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from truestep.compare.against import Limits
from truestep.compare.candidate import Candidate
from truestep.compare.protocol import Protocol
from truestep.compare.standing import Standing
from truestep.pages.words import between, counted, percent, ratio_words, significant
from truestep.run.faults import CONTROL, LABEL
from truestep.stats.coverage import shortfalls

CONTENDED = 0.8
"""The share of process CPU time in wall time x threads below which a machine counts as contended."""

RARE = 0.1
"""The chance of a failure for which coverage is told where no run failed: a handful of runs cannot exclude it."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """One limit of the comparison."""

    kind: str
    text: str


def notes(protocol: Protocol, standings: Sequence[Standing], limits: Limits, tau: Mapping[str, float | None]) -> tuple[Note, ...]:
    """Every limit that holds, the gravest first."""
    found = {
        "incomplete": _incomplete(limits),
        "never reached": _never_reached(protocol, standings),
        "target": _target(protocol),
        "too few seeds": _too_few_seeds(protocol, standings, limits),
        "coverage": _coverage(standings),
        "below zero": _below_zero(standings),
        "fault": _faults(standings),
        "emulated": _emulated(standings),
        "at once": _at_once(protocol),
        "contended": _contended(protocol, standings),
        "noise floor": _noise_floor(protocol, standings, limits),
        "resolution": _resolution(protocol, standings),
        "budget": _budget(protocol, standings, tau),
        "charged": _charged(protocol, standings),
    }
    return tuple(Note(kind=kind, text=text) for kind, texts in found.items() for text in texts)


def _incomplete(limits: Limits) -> Iterator[str]:
    if limits.runs < limits.planned:
        yield f"{limits.runs} of {limits.planned} runs are done; pairs hold the seeds that both sides have run."


def _target(protocol: Protocol) -> Iterator[str]:
    how = "declared" if protocol.pilot is None else "set"
    yield f"Target: {protocol.quality} {protocol.target:g}, {how} by {protocol.target_from}."


def _never_reached(protocol: Protocol, standings: Sequence[Standing]) -> Iterator[str]:
    target = f"the target ({protocol.quality} {protocol.target:g})"
    missed = [one for one in standings if one.runs and not one.reached]
    if missed and not any(one.reached for one in standings):
        yield f"No run reached {target}{_best(protocol, missed)}: {_advice(missed)}."
        return
    for one in missed:
        yield f"{one.candidate} never reached {target} in {counted(one.runs, 'run')}{_best(protocol, [one])}."


def _best(protocol: Protocol, missed: Sequence[Standing]) -> str:
    """The best validation quality of runs without the target, as a part of a sentence; nothing where none was evaluated."""
    found = [failure["best"] for one in missed for failure in one.failures if failure["best"] is not None]
    best = max if protocol.direction == "higher" else min
    return f"; the best on validation was {significant(best(found), 4)}" if found else ""


def _advice(missed: Sequence[Standing]) -> str:
    """What to do where nobody reached the target: a larger budget helps only runs that used up theirs."""
    statuses = sum((Counter(one.statuses) for one in missed), Counter[str]())
    if "budget" in statuses:
        return "choose one that the baseline reaches, or a larger budget"
    ended = ", ".join(f"{count} {status}" for status, count in statuses.items())
    return f"no run came to the end of its budget ({ended}), so mend what ended them, which is told run by run"


def _too_few_seeds(protocol: Protocol, standings: Sequence[Standing], limits: Limits) -> Iterator[str]:
    rivals = sum(one.is_rival for one in standings)
    if rivals and len(protocol.seeds) < limits.seeds_needed:
        seeds, least = counted(len(protocol.seeds), "seed"), min(1.0, 2 / 2 ** len(protocol.seeds))
        yield (
            f"No claim: {seeds} can give no p below {significant(least)}, and {rivals} against the baseline at "
            f"alpha = {protocol.alpha:g} take {limits.seeds_needed} seeds."
        )


def _coverage(standings: Sequence[Standing]) -> Iterator[str]:
    """How often intervals hold the truth where runs fail: one in ten, and as many as failed here."""
    runs = max((one.runs for one in standings), default=0)
    cases = {RARE: "one in ten fails"} if runs > 1 else {}
    for one in standings:
        if 0 < one.reached < one.runs == runs:
            share = (one.runs - one.reached) / one.runs
            cases.setdefault(share, f"{one.runs - one.reached} in {one.runs} fail, as of {one.candidate}")
    found = [
        f"if {words}, that of the {name} in {percent(share, 2)}"
        for failing, words in cases.items()
        for name, share in shortfalls(runs=runs, failing=failing)
    ]
    if found:
        at = counted(runs, "run")
        yield f"A 95 % interval holds the truth less often than 95 % where runs fail: at {at}, {'; '.join(found)}."


def _below_zero(standings: Sequence[Standing]) -> Iterator[str]:
    """Student's interval knows no bounds: at two or three runs it can begin below any possible time."""
    found = [
        one
        for one in standings
        if any(each is not None and each.interval is not None and each.interval.low < 0 for each in one.estimates.values())
    ]
    if found:
        names, runs = ", ".join(one.candidate for one in found), counted(min(one.runs for one in found), "run")
        yield (
            f"The 95 % interval of a mean is Student's, as far below it as above: at {runs} it begins below 0 for {names}, "
            "where no time can lie. More seeds narrow it."
        )


def _faults(standings: Sequence[Standing]) -> Iterator[str]:
    for one in standings:
        fault = Candidate.parse(one.candidate).demonstrates
        if fault is not None:
            what = f"{one.candidate} runs a loop that {fault.mistake}; {fault.damage}"
            yield f"{LABEL.capitalize()}: {what}. It judges no precision: no claim is made about it, and no --fail-if counts it."
        if one.control:
            yield f"{CONTROL.capitalize()}: {one.candidate} runs a hand-written loop without a mistake, in place of the engine."


def _emulated(standings: Sequence[Standing]) -> Iterator[str]:
    names = [one.candidate for one in standings if one.emulated]
    if names:
        verb = "is" if len(names) == 1 else "are"
        why = f", since all are held against {standings[0].candidate}" if standings[0].emulated else ""
        yield (
            f"{', '.join(names)} {verb} emulated on this device: the seconds say nothing about one that has the format, "
            f"and no verdict on time is given{why}. Completed updates and examples to the target hold."
        )


def _at_once(protocol: Protocol) -> Iterator[str]:
    if protocol.jobs > 1:
        yield (
            f"Contended by design: {protocol.jobs} runs at once shared the machine, and seconds are unsure. Completed updates "
            "and examples to the target hold."
        )


def _contended(protocol: Protocol, standings: Sequence[Standing]) -> Iterator[str]:
    shares = {one.candidate: one.cpu_share for one in standings if one.cpu_share is not None}
    least = min(shares, key=shares.__getitem__, default=None)
    if least is not None and shares[least] < CONTENDED:
        threads = counted(protocol.threads, "thread")
        cause = "the machine was contended" + ("" if protocol.threads == 1 else ", or the task cannot keep them busy")
        yield (
            f"Contended: in a run of {least} the process had {percent(shares[least], 2)} of the time of {threads} "
            f"(below {percent(CONTENDED)}); {cause}, and seconds are unsure."
        )


def _noise_floor(protocol: Protocol, standings: Sequence[Standing], limits: Limits) -> Iterator[str]:
    if limits.noise_floor is not None:
        floor = ratio_words(limits.noise_floor, times="x")
        yield f"Noise floor: {protocol.baseline} lay up to {floor} from itself; below it nothing is claimed."
    elif any(one.again for one in standings):
        yield f"Noise floor not measured: {protocol.baseline} reached the target in no pair of runs."
    elif len(standings) > 1:
        yield f"Noise floor not measured: the candidate '{protocol.baseline} again' measures it."


def _resolution(protocol: Protocol, standings: Sequence[Standing]) -> Iterator[str]:
    every = protocol.evaluate_every / protocol.batch
    updates = "1 update" if every == 1 else f"{every:.3g} updates"
    estimate = standings[0].estimates["examples"]
    share = ""
    if estimate is not None and estimate.median:
        share = f", {percent(protocol.evaluate_every / estimate.median, 2)} of what {protocol.baseline} takes"
    yield (
        f"Resolution: the target is looked for every {counted(protocol.evaluate_every, 'example')} ({updates}){share}; "
        "smaller differences cannot be seen."
    )


def _charged(protocol: Protocol, standings: Sequence[Standing]) -> Iterator[str]:
    """Why a run without the target counts as more examples than it has seen: what the counts tell, and no more."""
    budget = protocol.budget_attempts * protocol.batch
    said = [words for one in standings if (words := _seen(protocol, one, budget))]
    if said:
        charge = f"{budget:,} examples, the budget of {counted(protocol.budget_attempts, 'attempt')} of {protocol.batch:,}"
        yield f"Charged: a run without the target counts as {charge}, whatever it has seen: {'; '.join(said)}."


def _seen(protocol: Protocol, one: Standing, budget: int) -> str | None:
    """What the runs without the target have seen, and where the rest of `budget` went; None where nothing is left of it."""
    seen = sorted(failure["examples_seen"] for failure in one.failures)
    if not seen or seen[0] == budget:
        return None
    train, batch = protocol.splits["train"], protocol.batch
    unmade = sum(protocol.budget_attempts - failure["attempts"] for failure in one.failures)
    short = sum(failure["attempts"] * batch - failure["examples_seen"] for failure in one.failures)
    by_epochs = sum(failure["attempts"] // -(-train // batch) for failure in one.failures) * (-train % batch)
    last = f"the last window of each epoch of {train:,} examples holds {train % batch:,}"
    why = [f"{unmade:,} of {counted(protocol.budget_attempts * len(seen), 'attempt')} were not made"] * (unmade > 0)
    why += [last if short == by_epochs else f"windows held {short:,} fewer examples than whole ones"] * (short > 0)
    return f"{one.candidate} {between(f'{seen[0]:,}', f'{seen[-1]:,}')} ({', and '.join(why)})"


def _budget(protocol: Protocol, standings: Sequence[Standing], tau: Mapping[str, float | None]) -> Iterator[str]:
    seconds = tau["seconds"]
    if protocol.budget_seconds is None and seconds is not None and any(one.reached < one.runs for one in standings):
        yield (f"A run without the target counts as {seconds:.3g} s, the longest of all runs: no budget in seconds was declared.")
