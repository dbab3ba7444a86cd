"""A plain PyTorch loop with truestep in its middle: tokens of unequal number, float16 where the device has it, a ledger.

    python examples/plain_loop.py

The data are sequences of random length, so the loss is a mean over tokens and the weight says so. What the loop does not do any
more: scale, unscale, clip at the right moment, look for infinities, divide by the number of microbatches, decide when the
schedule moves. It leaves plain_loop.jsonl behind, for `truestep ledger`, and refuses to write over one.
"""

import torch
from torch import Tensor, nn

import truestep

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
POLICY = "fp16" if DEVICE == "cuda" else "bf16"
IGNORED = -100


class NextToken(nn.Module):
    """Predicts a token from the two before it."""

    def __init__(self, tokens: int = 16, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.recurrence = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the token after each of `tokens`."""
        return self.head(self.recurrence(self.embedding(tokens))[0])


def microbatch(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences whose token is the sum of the two before it, modulo 16; what lies beyond a sequence's end is not scored."""
    tokens = torch.randint(0, 16, (size, 12), generator=generator)
    for place in range(2, 12):
        tokens[:, place] = (tokens[:, place - 1] + tokens[:, place - 2]) % 16
    lengths = torch.randint(4, 12, (size, 1), generator=generator)
    labels = tokens[:, 1:].masked_fill(torch.arange(11) >= lengths, IGNORED)
    return tokens[:, :-1].to(DEVICE), labels.to(DEVICE)


def loss(model: nn.Module, data: tuple[Tensor, Tensor]) -> Tensor:
    """The mean over the scored tokens of a microbatch."""
    inputs, labels = data
    return nn.functional.cross_entropy(model(inputs).flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


def scored_tokens(data: tuple[Tensor, Tensor]) -> int:
    """What `loss` is a mean over."""
    return int((data[1] != IGNORED).sum())


def main() -> None:
    """Train, print now and then, and leave a ledger behind."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = NextToken().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60)
    update = truestep.Update(
        model,
        optimizer,
        loss=loss,
        weight=scored_tokens,
        tokens=scored_tokens,
        policy=POLICY,
        clip=truestep.ClipNorm(1.0),
        scheduler=scheduler,
    )
    stream = (microbatch(16, generator) for _ in range(240))
    with truestep.Ledger("plain_loop.jsonl") as ledger:
        for window in truestep.windows(stream, 4):
            outcome = update(window)
            ledger.record(outcome)
            if outcome.counts.attempts % 20 == 0:
                print(f"attempt {outcome.counts.attempts}: loss {outcome.loss:.3f}, norm {outcome.grad_norm}")
    print(f"{update.counts.completed} completed, {update.counts.skipped} skipped; the weight: {outcome.weight_check}")


if __name__ == "__main__":
    main()
