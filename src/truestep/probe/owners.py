"""Whose code a file is: the user's own, another installed package's, or that of the machinery below both."""

from __future__ import annotations

import os
import site
import sysconfig
from pathlib import Path
from typing import Literal

import torch

Owner = Literal["user", "library", "machinery"]

OURS = str(Path(__file__).parents[1]) + os.sep
"""What the paths of truestep's own files begin with."""
_TORCH = str(Path(torch.__file__).parent) + os.sep  # wherever it is: in the base of an environment that sees it, too
_NO_FILE = ("<frozen", "<string>", "<__array", "<eval_with")
_STANDARD = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_INSTALLED = tuple(
    {
        folder + os.sep
        for folder in (
            *(sysconfig.get_path(name) for name in ("purelib", "platlib")),
            *site.getsitepackages(),
            site.getusersitepackages(),
        )
    }
)
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
"""Folders that nobody's own code stands in, whichever interpreter's they are."""


class _Owners(dict[str, Owner]):
    """Machinery is torch, truestep, the standard library, and code without a file.

    >>> OWNERS[torch.nn.__file__], OWNERS[os.__file__], OWNERS[__file__], OWNERS["<string>"]
    ('machinery', 'machinery', 'machinery', 'machinery')
    >>> OWNERS["/home/me/.local/lib/python3.12/site-packages/torch/_ops.py"], OWNERS["/usr/lib/python3/dist-packages/six.py"]
    ('library', 'library')
    >>> OWNERS["/home/me/task.py"], OWNERS[OURS.rstrip(os.sep) + "-mine/task.py"]
    ('user', 'user')
    """

    def __missing__(self, path: str) -> Owner:
        self[path] = found = _owner(path)
        return found


def _owner(path: str) -> Owner:
    if path.startswith((_TORCH, OURS, *_NO_FILE)):
        return "machinery"
    if path.startswith(_INSTALLED) or any(name in path for name in _PACKAGES):
        return "library"
    return "machinery" if path.startswith(_STANDARD) else "user"


OWNERS = _Owners()
"""Whose code a file is, by its path; each is told once."""
