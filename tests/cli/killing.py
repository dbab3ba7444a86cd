"""A program: kills a real `truestep train` with SIGKILL at random moments, resumes it until it ends, again and again.

    python killing.py KILLS SEED ARGUMENTS...

Prints one JSON line for the undisturbed run, and one for each run that was killed and ended, until there were KILLS kills. Each
process of a run is a fork of this one, which has computed nothing.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from truestep import tasks
from truestep.checkpoint import Checkpoints, read_checkpoint
from truestep.cli import commands, main
from truestep.ledger import read, summarize
from truestep.run.folder import CHECKPOINTS, LEDGER, RECORD


def live(arguments: list[str], log: Path, *, seconds: float | None) -> tuple[bool, float]:
    """One process of a run: whether it was killed, and how long it lived."""
    began = time.perf_counter()
    process = os.fork()
    if process == 0:
        code = 70
        try:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
            os.dup2(2, 1)
            code = main(arguments)
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"{arguments} ended with {os.WEXITSTATUS(status)}:\n{log.read_text()}")
    return os.WIFSIGNALED(status), time.perf_counter() - began


def what_is_left(out: Path, task: str) -> dict[str, Any]:
    """Everything of an ended run that must not hang on how often it died."""
    better = tasks.load(task).quality_better
    record = json.loads((out / RECORD).read_bytes())
    newest = max((out / CHECKPOINTS).glob("*.ckpt"), key=lambda path: read_checkpoint(path).description.serial)
    state = read_checkpoint(newest).state
    summary = summarize(read(out / LEDGER))
    return {
        **{name: record[name] for name in ("status", "detail", "counts", "weights_digest", "test_quality")},
        "evaluations": [(place["examples"], place["completed"], place["quality"]) for place in record["evaluations"]],
        "ledger": summary.as_dict()["counts"],
        "missing": summary.missing_attempts,
        "update": state["update"],
        "optimizers": str(state["optimizers"]),
        "schedulers": str(state["schedulers"]),
        "random": str(state["random"]["cpu"].tolist()),
        "position": state["parts"]["run"]["value"]["position"],
        "best": getattr(Checkpoints(out / CHECKPOINTS, quality_better=better).best(), "name", None),
    }


def run() -> None:
    kills, seed, arguments = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    commands()
    undisturbed = Path("undisturbed")
    live([*arguments, "--out", str(undisturbed)], Path("log"), seconds=None)
    _, length = live([*arguments, "--out", "again"], Path("log"), seconds=None)  # the first one filled caches
    print(json.dumps(what_is_left(undisturbed, arguments[1])), flush=True)
    moments = random.Random(seed)
    done, number = 0, 0
    while done < kills:
        out, lives = Path(f"killed-{number}"), []
        while True:
            moment = moments.uniform(0.0, 1.1 * length)
            resume = ["--resume"] if lives else []
            killed, _ = live([*arguments, "--out", str(out), *resume], Path("log"), seconds=moment)
            lives.append(moment)
            done += killed
            if not killed:
                break
        print(json.dumps({"lives": lives, **what_is_left(out, arguments[1])}), flush=True)
        number += 1


if __name__ == "__main__":
    run()
