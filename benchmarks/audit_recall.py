"""What an audit finds: for each kind of mistake the planted ones found at their line, elsewhere or not at all; and false alarms.

    python benchmarks/audit_recall.py [corpus|holdout ...]

`corpus` was there while the rules were written, `holdout` was written by people who had seen neither, and was first judged after.
Each script runs in a child of its own. Scripts of several processes and of libraries are left to tests/audit/test_ranks.py and
test_libraries.py.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.audit.harness import examine, fault, scripts  # noqa: E402 - the repository has to be on the path first


def outcome(kind: str, file: Path) -> str:
    """Where a planted mistake was found."""
    found = [(Path(each.path).name, each.line) for each in examine(file).findings if each.rule == kind and each.path]
    return "line" if fault(file) in found else "elsewhere" if found else "missed"


def main() -> None:
    """Prints one table for each folder."""
    for name in sys.argv[1:] or ("corpus", "holdout"):
        table: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for kind, file, correct in scripts(ROOT / "tests" / "audit" / name):
            if correct:
                alarms = [each for each in examine(file).findings if each.severity != "note"]
                table[kind].update(["correct"] + ["false alarm"] * bool(alarms))
            else:
                table[kind].update([outcome(kind, file)])
        columns = ("line", "elsewhere", "missed", "correct", "false alarm")
        print(f"{name:30}" + "".join(f"{column:>12}" for column in columns))
        for kind, counts in [*sorted(table.items()), ("all", sum(table.values(), Counter()))]:
            print(f"{kind:30}" + "".join(f"{counts[column]:12}" for column in columns))


if __name__ == "__main__":
    main()
