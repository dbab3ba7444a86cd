"""A task on a Hugging Face data set that was saved to disk: a column of texts, and one of classes.

    SAVED_DATASET=/data/reviews truestep compare examples/saved_dataset.py:Texts --seeds 3 --target 0.9
    python examples/saved_dataset.py

    datasets.DatasetDict(train=..., validation=..., test=...).save_to_disk("/data/reviews")     (columns "text" and "label")

Nothing is downloaded. Run as a script without a data set, it writes a tiny one into ./sums and trains on that.
"""

import importlib.util
import os
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from truestep.run import Settings, train
from truestep.tasks import Splits, Task

FOLDER = Path(os.environ.get("SAVED_DATASET", "sums"))
LONGEST = 256


class Texts(Task):
    """Which class a text is of, from its bytes."""

    name = "texts"
    batch, microbatches, updates = 64, 4, 500
    quality_name = "accuracy"
    quality_better = "higher"

    def splits(self) -> Splits:
        """The three splits as they were saved; a data set stays on disk and is read item by item."""
        from datasets import load_from_disk  # noqa: PLC0415 - datasets is no part of truestep

        saved = load_from_disk(str(FOLDER))
        return Splits(train=saved["train"], validation=saved["validation"], test=saved["test"])

    def model(self) -> nn.Module:
        """The mean of what the bytes embed to, and a small network; put your own here."""
        classes = 1 + max(self.splits().train["label"])
        return nn.Sequential(nn.EmbeddingBag(257, 64, padding_idx=256), nn.ReLU(), nn.Linear(64, classes))

    def optimizer(self, parameters):
        """AdamW."""
        return torch.optim.AdamW(parameters, lr=1e-2)

    def microbatch(self, dataset, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Bytes of the texts, padded with 256 to the longest of them, and the classes."""
        rows = dataset[indices.tolist()]
        texts = [torch.tensor(list(text.encode()[:LONGEST]) or [256]) for text in rows["text"]]
        return nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=256), torch.tensor(rows["label"])

    def loss(self, model: nn.Module, microbatch) -> Tensor:
        """Cross entropy, a mean over the texts."""
        texts, classes = microbatch
        return nn.functional.cross_entropy(model(texts), classes)

    def quality(self, model: nn.Module, dataset) -> float:
        """The share of texts whose class is found."""
        device, right = next(model.parameters()).device, 0
        for indices in torch.arange(len(dataset)).split(128):
            texts, classes = self.microbatch(dataset, indices)
            right += int((model(texts.to(device)).argmax(dim=1).cpu() == classes).sum())
        return right / len(dataset)


def write(folder: Path) -> None:
    """Sums and differences: the class is which of the two a text is."""
    from datasets import Dataset, DatasetDict  # noqa: PLC0415

    numbers = torch.randint(0, 100, (160, 2), generator=torch.Generator().manual_seed(0)).tolist()
    rows = [{"text": f"{a} {'+-'[place % 2]} {b}", "label": place % 2} for place, (a, b) in enumerate(numbers)]
    parts = {"train": rows[:96], "validation": rows[96:128], "test": rows[128:]}
    DatasetDict({name: Dataset.from_list(part) for name, part in parts.items()}).save_to_disk(str(folder))


def main() -> None:
    """Train a little and say how far that came."""
    if importlib.util.find_spec("datasets") is None:
        sys.exit("this example reads with the package datasets: pip install datasets")
    if not FOLDER.exists():
        write(FOLDER)
    record = train(Texts(), Settings(policy="bf16", budget_attempts=20), seed=0)
    print(f"{record.status}: {record.counts.completed} completed, accuracy {record.last}")


if __name__ == "__main__":
    main()
