"""Imports follow the arrows of docs/design.md, and no module is part of a circle."""

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The rooms that each room may import, as docs/design.md draws them under "Rooms and arrows"; whatever those may import, it
# may too. `truestep` is the package's own file, the front door; it opens on everything but labs and cli, so they alone may
# go in by it.
BELOW = {"errors", "disk", "formats", "probe", "stats", "engine", "ledger", "checkpoint", "tasks", "run", "verification"}
BELOW |= {"inspection", "footprint", "timing", "compare", "audit", "pages", "integrations"}
ARROWS = {
    "errors": set(),
    "disk": {"errors"},
    "formats": {"errors"},
    "probe": {"errors"},
    "stats": {"errors"},
    "tasks": {"errors"},
    "pages": {"errors"},
    "engine": {"formats", "probe", "stats"},
    "ledger": {"engine"},
    "checkpoint": {"disk", "engine"},
    "run": {"engine", "ledger", "checkpoint", "tasks"},
    "compare": {"run", "stats", "pages"},
    "verification": {"formats", "probe", "stats", "engine", "tasks", "run", "pages"},
    "inspection": {"formats", "probe", "stats", "engine", "tasks", "run", "pages"},
    "footprint": {"formats", "probe", "stats", "engine", "tasks", "run", "pages"},
    "timing": {"disk", "engine", "pages"},
    "audit": {"disk", "probe", "pages"},
    "integrations": {"engine", "ledger", "probe"},
    "truestep": BELOW,
    "labs": {"truestep"},
    "cli": {"labs"},
    "__main__": {"cli"},
}
# Packages that only these places may import: a room, or one file of it.
ONLY = {"rich": {"cli"}, "tyro": {"cli"}, "jinja2": {"pages"}, "plotly": {"pages"}}
WITHOUT_TORCH = {"errors", "disk", "stats", "pages", "formats"}
TORCH_FILE = "truestep.formats.torch_dtypes"


def modules(source):
    """Each module below `source` by its dotted name, with its file."""
    names = {}
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return names


def imports(name, file, known):
    """(what is imported, line) of every import statement of a module, wherever it stands.

    `from a import b` is an import of a.b where that is a module, else of a.
    """
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *filter(None, [base])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if inner in known else base), node.lineno


def room(name):
    """The room a module is in: the first name below `truestep`, or the front door itself."""
    return name.split(".")[1] if "." in name else name


def reachable(start):
    """Every room that a room may import."""
    found, waiting = set(), [start]
    while waiting:
        new = ARROWS.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def wrong_arrows(source):
    """Each import that goes against the arrows, as text."""
    known = modules(source)
    for name, file in known.items():
        here = room(name)
        if here not in ARROWS:
            yield f"{name}: {here} is no room of docs/design.md"
            continue
        for target, line in imports(name, file, known):
            package, there = target.split(".")[0], room(target)
            if package == "truestep" and there != here and there not in reachable(here):
                yield f"{name}:{line} imports {target}, but no arrow leads from {there} to {here}"
            if here not in ONLY.get(package, {here}):
                yield f"{name}:{line} imports {package}, which belongs to {', '.join(ONLY[package])}"
            if package == "torch" and here in WITHOUT_TORCH and name != TORCH_FILE:
                yield f"{name}:{line} imports torch, without which {here} does"


def circle(source):
    """The modules of one circle of imports, or None."""
    known = modules(source)
    graph = {name: {target for target, _ in imports(name, file, known) if target in known} for name, file in known.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_no_import_goes_against_the_arrows():
    assert list(wrong_arrows(ROOT / "src")) == []


def test_no_module_is_part_of_a_circle():
    assert circle(ROOT / "src") is None


def test_the_arrows_themselves_have_no_circle_and_lead_only_to_rooms():
    graphlib.TopologicalSorter(ARROWS).prepare()
    assert set().union(*ARROWS.values()) <= set(ARROWS)


def test_what_the_arrows_are_for():
    assert "engine" not in reachable("audit")  # it judges foreign code
    assert "ledger" not in reachable("engine")  # an outcome does not know that it is kept
    assert reachable("tasks") == reachable("pages") == {"errors"}
    assert all("cli" not in reachable(name) for name in ARROWS if name != "__main__")


def test_the_rooms_are_those_that_the_design_lists():
    tree = (ROOT / "docs" / "design.md").read_text().split("src/truestep/\n")[1].split("benchmarks/")[0]
    listed = {line.split()[0].removesuffix("/").removesuffix(".py") for line in tree.splitlines() if line[2:3] != " "}
    assert listed == set(ARROWS) - {"truestep", "__main__"}


@pytest.fixture
def tree(tmp_path):
    """Writes modules given as {dotted path: text} below tmp_path; returns tmp_path."""

    def write(**texts):
        for name, text in {"truestep/__init__": "", **texts}.items():
            file = tmp_path / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("importer", "text", "complaint"),
    [
        ("truestep/engine/a", "from truestep.ledger import records", "from ledger to engine"),
        ("truestep/engine/a", "import truestep.ledger.records", "from ledger to engine"),
        ("truestep/engine/a", "from ..ledger import records", "from ledger to engine"),
        ("truestep/engine/a", "def f():\n    from truestep.ledger.records import x", "a:2"),
        ("truestep/engine/a", "if TYPE_CHECKING:\n    from truestep.ledger.records import x", "a:2"),
        ("truestep/audit/a", "from truestep.engine import clip", "from engine to audit"),
        ("truestep/audit/a", "from truestep import engine", "from engine to audit"),
        ("truestep/tasks/a", "from truestep import Update", "from truestep to tasks"),
        ("truestep/labs/a", "from truestep.cli import main", "from cli to labs"),
        ("truestep/kitchen/a", "", "kitchen is no room"),
        ("truestep/compare/a", "from rich.table import Table", "rich, which belongs to cli"),
        ("truestep/formats/a", "import torch.nn", "imports torch, without which formats does"),
    ],
)
def test_the_walk_finds(tree, importer, text, complaint):
    source = tree(
        **{"truestep/ledger/records": "", "truestep/engine/__init__": "", "truestep/cli/__init__": ""}, **{importer: text}
    )
    (found,) = wrong_arrows(source)
    assert complaint in found


def test_the_walk_lets_pass_what_the_arrows_allow(tree):
    source = tree(
        **{
            "truestep/engine/clip": "from truestep.errors import ClipError\nfrom truestep.engine import counts",
            "truestep/engine/counts": "import torch",
            "truestep/compare/race": "from truestep.tasks import load\nfrom truestep.engine.counts import Counts",
            "truestep/tasks/__init__": "import torch",
            "truestep/errors": "",
            "truestep/formats/torch_dtypes": "import torch",
            "truestep/cli/compare": "import rich, truestep\nfrom truestep import compare",
            "truestep/compare/__init__": "",
        }
    )
    assert list(wrong_arrows(source)) == []


@pytest.mark.parametrize(
    "second",
    [
        "from truestep.engine.a import x",
        "import truestep.engine.a",
        "from . import a",
        "def f():\n    from truestep.engine import a",
        "if TYPE_CHECKING:\n    from truestep.engine.a import x",
    ],
)
def test_a_circle_is_found(tree, second):
    source = tree(**{"truestep/engine/a": "from truestep.engine.b import y", "truestep/engine/b": second})
    assert set(circle(source)) == {"truestep.engine.a", "truestep.engine.b"}


def test_a_room_that_imports_the_front_door_is_a_circle(tree):
    source = tree(**{"truestep/__init__": "from truestep.engine.a import x", "truestep/engine/a": "from truestep import x"})
    assert circle(source) is not None
