"""Measures what truestep costs beside others, each part in a process of its own, and writes one page: python -m benchmarks.

python -m benchmarks                 everything, into benchmarks/RESULTS.md
python -m benchmarks --quick         smaller settings of the same, printed: whether all of it runs
python -m benchmarks --only tail     one part or more, printed
python -m benchmarks --gpu           the parts for a CUDA device, into benchmarks/RESULTS-GPU.md
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.parts import GPU_PARTS, PARTS, measured
from benchmarks.results import Measured, page

HERE = Path(__file__).parent


def main(given: list[str] | None = None) -> int:
    """Exit code: 0 once all that was asked for has been measured, 3 where a part could not be; a missed aim is a result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="smaller settings, printed")
    parser.add_argument("--only", nargs="+", metavar="PART", choices=[*PARTS, *GPU_PARTS], help=", ".join(PARTS))
    parser.add_argument("--gpu", action="store_true", help="the parts for a CUDA device")
    parser.add_argument("--out", type=Path, help="where the page is written, in place of printing it or of RESULTS.md")
    asked = parser.parse_args(given)
    names = asked.only or list(GPU_PARTS if asked.gpu else PARTS)
    found = Measured.begin()
    for name in names:
        print(f"measuring {name} ...", end=" ", file=sys.stderr, flush=True)
        part = measured(name, quick=asked.quick)
        spent = f"{part.seconds:.0f} s, {part.processor_seconds:.0f} s of the processor"
        print(spent + ("" if part.failed is None else f": not measured: {part.failed}"), file=sys.stderr)
        found.parts.append(part)
    text = page(found.end(), quick=asked.quick)
    whole = not asked.quick and not asked.only
    out = asked.out or (HERE / ("RESULTS-GPU.md" if asked.gpu else "RESULTS.md") if whole else None)
    if out is None:
        print(text)
    else:
        out.write_text(text)
        print(f"written: {out}", file=sys.stderr)
    return 3 if any(part.failed is not None for part in found.parts) else 0


if __name__ == "__main__":
    raise SystemExit(main())
