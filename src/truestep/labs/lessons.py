"""The lessons: each fact that a lab has to show, by its row."""

from __future__ import annotations

LESSONS: dict[str, str] = {
    "A1": "unscale before the clip: 0.2 stays 0.2 under a scale of 1024, and clipped first 1/1024 is left",
    "A2": "a norm of 2 under the limit 1 becomes 1, and clipped under a scale of 100 it becomes 0.01",
    "A3": "[3, 4] under the norm limit 2 keeps its direction, and in the wrong order is 100 times too short",
    "A4": "clip functions add an epsilon, so that comparing needs a derived tolerance",
    "A5": "a run in the wrong order still lowers its loss; audit and verify name order, line and factor",
    "A6": "the order of one effective update, and what every other order does",
    "A7": "scaling by a power of two leaves the gradient unchanged, away from underflow and overflow",
    "A8": "repairs of A1 that tempt: the limit times the scale, the limit over the scale, the gradient left scaled",
    "B1": "the loss scale is constant within a window",
    "B2": "losses divided by N equal the full batch; raw losses give N times the gradient, which Adam hides",
    "B3": "dividing after the window is the same mathematics with less room in float16",
    "B4": "unequal token counts: the sum of losses over the total count, not the mean of means",
    "B5": "4 x 32 equals 1 x 128 in the printed digits, and not to the bit",
    "B6": "accumulated float16 equals the float32 full batch within a derived criterion",
    "B7": "where accumulation is not the full batch: batch statistics, dropout, batch-coupled losses",
    "B8": "loss scaling and statistical weighting are two operations and two numbers",
    "B9": "degenerate windows: empty, one item, one microbatch, no scored token, all examples equal",
    "B10": "N losses summed before one backward equal the full batch; the price is N graphs at once",
    "C1": "the fields and limits of the number formats",
    "C2": "what float16 stores of 1e-4, 6.1e-5, 1e-7, 1e-8",
    "C3": "a scale of 65536 carries 1e-8 through float16",
    "C4": "what is kept in which format, under autocast and with narrow weights",
    "C5": "which operations autocast runs low, and which in float32",
    "C6": "bytes per parameter: autocast keeps 16; what shrinks is activations",
    "D1": "100 attempts of which 10 are skipped are 90 completed updates",
    "D2": "what a record of a run holds",
    "D3": "a schedule on attempts is not one on completed updates",
    "D4": "a high rate of skips is evidence, shown beside the throughput",
    "D5": "without update() the scale never moves",
    "D6": "with an interval of 2000 the scale stays where it is over a short clean run",
    "D7": "loss scaling repairs no invalid input, undefined operation, forward overflow or learning rate",
    "D8": "the ways in which 'an overflow is detected and the step skipped' fails",
    "E1": "the criterion is declared quality and stability, not equality to the bit",
    "E2": "loss, gradient norms, skips and evaluation under one fixed protocol",
    "E3": "total time to the same target decides, retries and failed runs included",
    "E4": "steps per second is a local speed",
    "E5": "size and bias are two questions: the signed mean error has an interval",
}


def uncovered(facts: set[str]) -> list[str]:
    """The lessons that are not among `facts`, in order.

    >>> uncovered(set(LESSONS) - {"B4"})
    ['B4']
    """
    return [row for row in LESSONS if row not in facts]
