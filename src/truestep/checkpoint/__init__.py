"""State to disk and back: saved whole or not at all, verified before it is read, restored entirely or not at all."""

from truestep.checkpoint.checkpoints import Checkpoints
from truestep.checkpoint.description import Description
from truestep.checkpoint.file import Checkpoint, read_checkpoint
from truestep.checkpoint.restoring import Restored, restore

__all__ = ["Checkpoint", "Checkpoints", "Description", "Restored", "read_checkpoint", "restore"]
