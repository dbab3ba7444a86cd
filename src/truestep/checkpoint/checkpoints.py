"""A folder of checkpoints: one file a save, the last few and the best kept, the newest whole one restored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

import torch

from truestep.checkpoint.description import Description
from truestep.checkpoint.file import demand_whole, read_checkpoint, read_description, why, write_checkpoint
from truestep.checkpoint.gathering import state_of, unloadable
from truestep.checkpoint.keeping import Better, best_first, in_excess, newest_first
from truestep.checkpoint.restoring import Restored, restore_checkpoint
from truestep.disk import atomic
from truestep.disk.hold import Hold, held
from truestep.engine.update import Update
from truestep.errors import CheckpointError, UsageError

_NAME = re.compile(r"attempt-\d{8,}\.ckpt")


class Checkpoints:
    """Checkpoints in `folder`: each save is one file, `attempt-<number>.ckpt`, there whole or not at all.

    A save waits for the disk (fsync of the file and of the folder) before it returns and before it removes an older file, so
    that a kill at any moment, or a power cut, leaves at least as many whole checkpoints as before. One process saves into a
    folder; any may read. Files of other names are left alone, and so are those that cannot be used. There has to be room for
    one file more than are kept.

    Args:
        folder: Made by the first save, or by `reserve`.
        keep_last: So many of the newest are kept, and the best.
        quality_better: Which quality is the best, "higher" or "lower"; None: none is.

    Raises:
        UsageError: `keep_last` or `quality_better` is none.

    >>> import truestep
    >>> from tempfile import TemporaryDirectory
    >>> model = torch.nn.Linear(2, 1)
    >>> update = truestep.Update(model, torch.optim.SGD(model.parameters()), loss=lambda model, x: model(x).mean())
    >>> with TemporaryDirectory() as folder:
    ...     checkpoints = Checkpoints(folder, quality_better="lower")
    ...     for epoch, quality in enumerate([0.5, 0.2, 0.4, 0.3]):
    ...         _ = update([torch.ones(4, 2)])
    ...         path = checkpoints.save(update, quality=quality, epoch=epoch)
    ...     names = sorted(path.name for path in Path(folder).iterdir())
    ...     best, restored = checkpoints.best(), checkpoints.restore(update)
    >>> names
    ['attempt-00000002.ckpt', 'attempt-00000003.ckpt', 'attempt-00000004.ckpt']
    >>> best.name, restored.path.name, restored.parts
    ('attempt-00000002.ckpt', 'attempt-00000004.ckpt', {'epoch': 3})
    """

    def __init__(self, folder: str | os.PathLike[str], *, keep_last: int = 2, quality_better: Better | None = None) -> None:
        if not isinstance(keep_last, int) or keep_last < 1:
            raise UsageError(f"keep_last={keep_last!r} keeps no checkpoint", hint="give a whole number of at least 1")
        if quality_better not in (None, *get_args(Better)):
            hint = 'write quality_better="higher" or "lower", or leave it out'
            raise UsageError(f"quality_better={quality_better!r} is no direction", hint=hint)
        self.folder = Path(folder)
        self._keep_last, self._better = keep_last, quality_better
        self._hold: Hold | None = None
        self._not_whole: set[Path] = set()
        """Found torn behind a head that is whole: they do not count among those that are kept, and are not removed."""

    def reserve(self) -> None:
        """Make the folder, prove that it can be written, and keep other processes from saving into it.

        The first save does this too; called before a run begins, it fails before there is anything to lose.

        Raises:
            CheckpointError: the folder cannot be made or written, or another process saves into it.
        """
        if self._hold is not None and self._hold.is_alive:
            return
        with self._errors(f"{self.folder} cannot take checkpoints"):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                hold = held(self.folder)
            except BlockingIOError as error:
                hint = "wait for it to end, or give another folder"
                raise CheckpointError(f"another process saves into {self.folder}", hint=hint, path=str(self.folder)) from error
            atomic.sweep(self.folder, "attempt-*.ckpt")
            atomic.prove_writable(self.folder / "attempt-probe.ckpt")
        self._hold = hold

    def save(self, update: Update[Any], /, *, quality: float | None = None, **parts: Any) -> Path:
        """Save all that `update` needs to go on, and `parts`, and return the file; those in excess are gone then.

        It takes as long as torch.save, a SHA-256 over the same bytes, and the disk; the weights are not copied (bf16-pure's are).

        Saved are model, optimizers, schedulers, the update's own state, and the states of the global random generators (torch's,
        Python's, NumPy's). What has no state there is lost: a DataLoader's position, a generator of your own, unless a part.

        Args:
            quality: What `quality_better` judges. One that is not finite is kept, and is never the best.
            parts: An object with state_dict() and load_state_dict(), another update (the other half of a GAN), or a plain value:
                tensors, numbers, texts, and lists and dictionaries of them.

        Raises:
            CheckpointError: a value could not be loaded again (it is named), or the file cannot be written. Earlier checkpoints
                are as they were.
        """
        self.reserve()
        there, _ = self._scan()
        description = Description(
            serial=1 + max((description.serial for description in there.values()), default=0),
            counts=update.counts,
            quality=None if quality is None else float(quality),
            policy=update.plan.policy.name,
            torch=str(torch.__version__),
            truestep=metadata.version("truestep"),
        )
        path = self.folder / f"attempt-{update.counts.attempts:08d}.ckpt"
        self._write(path, state_of(update, parts), description)
        self._not_whole.discard(path)
        there = {old: description for old, description in there.items() if old not in self._not_whole} | {path: description}
        with self._errors(f"{path} is saved, but those in excess cannot be removed"):
            for old in in_excess(there, keep_last=self._keep_last, better=self._better):
                old.unlink(missing_ok=True)
        return path

    def restore(self, update: Update[Any], /, **parts: Any) -> Restored | None:
        """Put `update` and `parts` where the newest whole checkpoint left them; None where the folder has no checkpoint.

        Everything is loaded into the same objects, or, where anything does not fit, nothing. A file that is torn, altered or
        foreign is passed over for the one before it, and told in `refused`.

        Args:
            parts: The objects that were saved as parts, by the same names. Plain values come back in `restored.parts`.

        Raises:
            CheckpointError: no file is whole (each is told, with the reason), or the newest whole one belongs to another model,
                optimizer, scheduler, policy or parts; nothing has changed then.
        """
        self._not_whole.clear()
        there, refused = self._scan()
        for path in newest_first(there):
            try:
                checkpoint = read_checkpoint(path)
            except CheckpointError as error:
                self._not_whole.add(path)
                refused.append((path, error.reason))
            else:
                return restore_checkpoint(checkpoint, update, parts, refused=refused)
        if not refused:
            return None
        listed = "".join(f"\n  {path.name}: {reason}" for path, reason in refused)
        hint = "begin anew in another folder; the files are left as they are"
        raise CheckpointError(f"no checkpoint in {self.folder} can be used:{listed}", hint=hint, refused=tuple(refused))

    def best(self) -> Path | None:
        """The whole checkpoint of the best quality; None without one. Reads those that it considers entirely."""
        there, _ = self._scan()
        for path in best_first(there, self._better):
            try:
                demand_whole(path)
            except CheckpointError:
                self._not_whole.add(path)
            else:
                return path
        return None

    def _scan(self) -> tuple[dict[Path, Description], list[tuple[Path, str]]]:
        """What the checkpoints say of themselves, and why others do not."""
        there: dict[Path, Description] = {}
        refused: list[tuple[Path, str]] = []
        with self._errors(f"{self.folder} cannot be read"):
            names = sorted(os.listdir(self.folder)) if self.folder.exists() else []
        for path in (self.folder / name for name in names if _NAME.fullmatch(name)):
            try:
                description = read_description(path)
            except CheckpointError as error:
                if os.path.lexists(path):  # else its owner has removed it since
                    refused.append((path, error.reason))
            else:
                there[path] = description
        return there, refused

    def _write(self, path: Path, state: dict[str, Any], description: Description) -> None:
        kept = "earlier checkpoints are as they were"
        with self._errors(f"{path} cannot be written; {kept}"):
            try:
                write_checkpoint(path, state, description)
            except (OSError, MemoryError):
                raise
            except Exception as error:  # whatever pickling, or loading without running code, makes of a value
                raise unloadable(state) or CheckpointError(
                    f"{path} could not be loaded again and is not kept: {why(error)}; {kept}",
                    hint="give fewer parts, to find the one that it comes from",
                    path=str(path),
                ) from error

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """An OSError as a CheckpointError that says what is so because of it."""
        try:
            yield
        except OSError as error:
            hint = "make room, or give a folder that can be written"
            raise CheckpointError(f"{what}: {error.strerror or error}", hint=hint, path=str(self.folder)) from error
