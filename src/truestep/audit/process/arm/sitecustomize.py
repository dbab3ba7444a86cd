"""Begins an audit in each Python process below one, as soon as torch is there; Python runs this file before any script.

It runs in every one of them, whatever that is for: it imports next to nothing, and nothing that goes wrong leaves it.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
ASKED = "TRUESTEP_AUDIT"
BEGAN_SECONDS = time.monotonic()


class Waiting:
    """A finder that finds nothing by itself: it has the audit begin when the import of torch is over."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Torch as the other finders find it, told to say when it is whole."""
        if name != "torch":
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec: Any = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if hasattr(getattr(spec, "loader", None), "exec_module"):
            self.tell(spec.loader)
        return spec

    def tell(self, loader: "Any") -> None:
        """Has `loader`, which is this one import's own, begin the audit at its end."""
        execute = loader.exec_module

        def exec_module(module: "Any") -> None:
            execute(module)
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            begin()

        loader.exec_module = exec_module


def begin() -> None:
    """Begin the audit of this process; where that fails, say so to whoever asked for it, and to nobody else."""
    try:
        if "truestep" not in sys.modules:
            load_truestep()
        from truestep.audit.process import witness  # noqa: PLC0415 - with torch, and never before it

        witness.begin(os.environ[ASKED], began_seconds=BEGAN_SECONDS)
    except Exception as error:
        excuse(error)


def load_truestep() -> None:
    """Import truestep from where this file is, without a new place on the path: it need not be installed here."""
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415 - nothing heavy at the start

    spec = spec_from_file_location("truestep", os.path.join(ROOT, "__init__.py"), submodule_search_locations=[ROOT])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["truestep"] = module_from_spec(spec)
    spec.loader.exec_module(module)


def excuse(error: Exception) -> None:
    """Leave a file that says why nothing is seen of this process."""
    try:
        import json  # noqa: PLC0415 - likewise

        folder = json.loads(os.environ[ASKED])["folder"]
        with open(os.path.join(folder, f"{os.getpid()}.failed"), "w") as file:
            file.write(f"{type(error).__name__}: {error}")
    except Exception:
        pass


def run_the_next_one() -> None:
    """Import the user's own sitecustomize, which this one stands before; without one, nothing."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    spec = next(filter(None, (finder.find_spec("sitecustomize", None) for finder in finders)), None)
    if spec is not None:
        del sys.modules["sitecustomize"]
        __import__("sitecustomize")


if __name__ == "sitecustomize" and ASKED in os.environ:
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    try:
        run_the_next_one()
    finally:
        if "torch" in sys.modules:
            begin()
        else:
            sys.meta_path.insert(0, Waiting())
