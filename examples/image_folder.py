"""A task on a folder of images of one's own, laid out as torchvision's ImageFolder takes it.

    IMAGE_FOLDER=/data/flowers truestep compare examples/image_folder.py:Images --seeds 3 --target 0.9
    python examples/image_folder.py

    /data/flowers/train/CLASS/*.png, val/CLASS/*.png, test/CLASS/*.png      (any format that Pillow reads)

Nothing is downloaded. Run as a script without a folder, it paints a tiny one into ./stripes and trains on that.
"""

import os
from pathlib import Path

import torch
from torch import Tensor, nn

from truestep.run import Settings, train
from truestep.tasks import Splits, Task

FOLDER = Path(os.environ.get("IMAGE_FOLDER", "stripes"))
SIDE = 32


class Folder:
    """The images below a folder, each with the place of its class among the names of the classes."""

    def __init__(self, folder: Path) -> None:
        self.classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        self.files = [(path, place) for place, name in enumerate(self.classes) for path in sorted((folder / name).iterdir())]

    def __len__(self) -> int:
        """Images."""
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Red, green and blue in [-1, 1], and the class."""
        from PIL import Image  # noqa: PLC0415 - Pillow is no part of truestep

        path, place = self.files[index]
        with Image.open(path) as image:
            pixels = bytearray(image.convert("RGB").resize((SIDE, SIDE)).tobytes())
        return torch.frombuffer(pixels, dtype=torch.uint8).view(SIDE, SIDE, 3).permute(2, 0, 1) / 127.5 - 1, place


class Images(Task):
    """Which folder an image comes from."""

    name = "images"
    batch, microbatches, updates = 64, 4, 500
    workers = 0  # more read images in processes of their own; random augmentation is then the same for any number
    quality_name = "accuracy"
    quality_better = "higher"

    def splits(self) -> Splits:
        """The three folders; their classes have to be the same."""
        train, validation, test = (Folder(FOLDER / name) for name in ("train", "val", "test"))
        if not train.classes == validation.classes == test.classes:
            raise ValueError(f"the folders hold different classes: {train.classes}, {validation.classes}, {test.classes}")
        return Splits(train=train, validation=validation, test=test)

    def model(self) -> nn.Module:
        """A small convolutional network; put your own here."""
        classes = len(Folder(FOLDER / "train").classes)
        layers: list[nn.Module] = []
        for narrow, wide in ((3, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(narrow, wide, 3, stride=2, padding=1), nn.GroupNorm(8, wide), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))

    def optimizer(self, parameters):
        """AdamW."""
        return torch.optim.AdamW(parameters, lr=2e-3)

    def loss(self, model: nn.Module, microbatch) -> Tensor:
        """Cross entropy, a mean over the images."""
        images, classes = microbatch
        return nn.functional.cross_entropy(model(images), classes)

    def quality(self, model: nn.Module, dataset: Folder) -> float:
        """The share of images whose class is found."""
        device, right = next(model.parameters()).device, 0
        for indices in torch.arange(len(dataset)).split(128):
            images, classes = self.microbatch(dataset, indices)
            right += int((model(images.to(device)).argmax(dim=1).cpu() == classes).sum())
        return right / len(dataset)


def paint(folder: Path) -> None:
    """Stripes across and along, some lighter, some darker, in three splits."""
    from PIL import Image  # noqa: PLC0415

    generator = torch.Generator().manual_seed(0)
    for split, count in {"train": 48, "val": 16, "test": 16}.items():
        for name in ("across", "along"):
            (folder / split / name).mkdir(parents=True)
            for index in range(count):
                stripe = (torch.arange(8) // 2 % 2).mul(160).add(torch.randint(0, 90, (8, 8), generator=generator))
                pixels = (stripe if name == "along" else stripe.T).to(torch.uint8).contiguous()
                Image.frombytes("L", (8, 8), bytes(pixels.flatten().tolist())).save(folder / split / name / f"{index}.png")


def main() -> None:
    """Train a little and say how far that came."""
    if not FOLDER.exists():
        paint(FOLDER)
    record = train(Images(), Settings(policy="bf16", budget_attempts=20), seed=0)
    print(f"{record.status}: {record.counts.completed} completed, accuracy {record.last}")


if __name__ == "__main__":
    main()
