"""The built-in task `bytes-lm`: the next byte of real lines of unequal length, whose loss is a mean over the bytes scored."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from truestep.tasks.schedule import warmup_cosine_of
from truestep.tasks.task import Splits, Task
from truestep.tasks.text import book, chapters, lines, read
from truestep.tasks.transformer import ByteTransformer

_MOST = 128
_TRAIN, _VALIDATION, _TEST = slice(0, 21), slice(21, 22), slice(22, 23)
_IGNORED = -100
_EVALUATED_AT_ONCE = 64


class Padded(NamedTuple):
    """Lines side by side, each filled up at its end to the length of the longest."""

    inputs: Tensor
    """(lines, longest): the byte before each target; 0 before the first and in the padding. The text holds no 0."""
    targets: Tensor
    """(lines, longest): each line's bytes; -100 in the padding, which is not scored."""
    scored: int
    """Bytes of the lines: what the loss is a mean over."""


class BytesLM(Task):
    """The first volume of Pride and Prejudice (1813), paragraphs broken into lines of 5 to 128 bytes, one line an example.

    Chapters 1 to 21 are trained on, 22 validates, 23 tests. A microbatch of 4 lines has from about 200 to 500 bytes to score,
    so that a mean over microbatches that counts them alike is another gradient. Every byte is a target, the newline that ends
    a line among them; tokens are those.

    The target is 2.9 bits per byte. It comes from a pilot in float32 on seeds 100 to 109, run to the end of the budget: the
    median best quality was 2.765, plus a slack of 0.135; `truestep compare bytes-lm --pilot 10 --slack 0.135` repeats it.
    """

    name = "bytes-lm"
    batch = 16
    microbatches = 4
    updates = 200
    evaluate_every = 160
    target = 2.9
    quality_name = "bits per byte"
    quality_better: Literal["higher", "lower"] = "lower"

    def splits(self) -> Splits:
        """The lines by chapter, which is never cut in two."""
        return Splits(train=_lines(_TRAIN), validation=_lines(_VALIDATION), test=_lines(_TEST))

    def model(self) -> nn.Module:
        """One block, 64 wide, with 4 heads."""
        return ByteTransformer(width=64, heads=4)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """AdamW, fused."""
        return AdamW(parameters, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def scheduler(self, optimizer: Optimizer, ticks: int) -> LRScheduler:
        """A warm-up over the first twentieth, then half a cosine down to 0."""
        return warmup_cosine_of(optimizer, ticks)

    def microbatch(self, dataset: list[Tensor], indices: Tensor) -> Padded:
        """The lines at `indices`, padded."""
        return padded([dataset[index] for index in indices.tolist()])

    def loss(self, model: nn.Module, microbatch: Padded) -> Tensor:
        """Cross entropy in nats, a mean over the bytes scored."""
        logits = model(microbatch.inputs)
        return nn.functional.cross_entropy(logits.flatten(0, 1), microbatch.targets.flatten(), ignore_index=_IGNORED)

    def weight(self, microbatch: Padded) -> int:
        """The bytes scored."""
        return microbatch.scored

    def tokens(self, microbatch: Padded) -> int:
        """The same."""
        return microbatch.scored

    def quality(self, model: nn.Module, dataset: list[Tensor]) -> float:
        """The cross entropy of all of a split's bytes over their number, in bits: each byte counts once, wherever it stands."""
        device = next(model.parameters()).device
        nats, scored = 0.0, 0
        for part in torch.split(torch.arange(len(dataset)), _EVALUATED_AT_ONCE):
            inputs, targets, bytes_scored = self.microbatch(dataset, part)
            logits, wanted = model(inputs.to(device)).flatten(0, 1), targets.to(device).flatten()
            nats += nn.functional.cross_entropy(logits, wanted, ignore_index=_IGNORED, reduction="sum").item()
            scored += bytes_scored
        return nats / scored / math.log(2)


def padded(text: list[Tensor]) -> Padded:
    """The lines of `text` side by side.

    >>> inputs, targets, scored = padded([torch.tensor([72, 105, 10]), torch.tensor([33, 10])])
    >>> inputs.tolist(), targets.tolist(), scored
    ([[0, 72, 105], [0, 33, 0]], [[72, 105, 10], [33, 10, -100]], 5)
    """
    targets = nn.utils.rnn.pad_sequence(text, batch_first=True, padding_value=_IGNORED)
    inputs = nn.functional.pad(targets, (1, 0))[:, :-1].masked_fill(targets == _IGNORED, 0)
    return Padded(inputs=inputs, targets=targets, scored=sum(map(len, text)))


@functools.cache
def _paragraphs() -> list[list[str]]:
    return chapters(read(book()))


def _lines(which: slice) -> list[Tensor]:
    """The lines of some chapters, each as its bytes."""
    return [torch.tensor(list(line)) for chapter in _paragraphs()[which] for line in lines(chapter, most=_MOST)]
