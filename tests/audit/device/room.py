"""Runs scripts in forks of one process that has imported torch: with CUDA standing for the CPU, or as they are.

`python room.py jobs.json`: each job names a script, where its weights go, whether CUDA stands for the CPU, and how many ranks.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from truestep.audit.device import install
from truestep.audit.trace.patches import Patches


class Passing(TorchFunctionMode):
    """Sees every call, as an audit may, and changes none."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def main(jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = [_start(job, rank, port) for rank in range(job["ranks"])]
        codes = [os.waitpid(child, 0)[1] for child in ranks]
        Path(job["out"]).with_suffix(".code").write_text(str(max(codes)))


def _start(job: dict[str, Any], rank: int, port: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        _run(job, rank, port)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


def _run(job: dict[str, Any], rank: int, port: int) -> None:
    out = Path(job["out"])
    log = os.open(out.with_suffix(f".{rank}.log"), os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": job["ranks"], "LOCAL_WORLD_SIZE": job["ranks"]}
    os.environ.update({name: str(value) for name, value in ranks.items()}, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ["OUT"] = str(out)
    sys.argv = [job["script"]]
    told: list[tuple[str, str]] = []
    if job["cuda"]:
        install("cpu", Patches(), lambda what, why: told.append((what, why)))
    with Passing() if job["mode"] else nullcontext():
        runpy.run_path(job["script"], run_name="__main__")
    out.with_suffix(f".{rank}.told").write_text(json.dumps(told))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(json.loads(Path(sys.argv[1]).read_text()))
