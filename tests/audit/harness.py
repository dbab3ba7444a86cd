"""Judging many scripts fast: torch and the rules are imported once, and each script runs in a forked child that is watched."""

import contextlib
import gc
import hashlib
import io
import multiprocessing
import os
import re
import runpy
import sys
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch._dynamo  # what optimizers import when the first one is made, once for all children

from truestep.audit.judge import judge
from truestep.audit.rules import rules
from truestep.audit.story import Story
from truestep.audit.trace import start

rules()  # which are found and imported when they are asked for first
MARK = re.compile(r"#\s*<--\s*FAULT")
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, kw_only=True)
class Examined:
    """What a script printed, how it ended, and what was found."""

    output: str
    ended: str | None
    findings: tuple = ()
    coverage: dict = field(default_factory=dict)
    failure: str | None = None
    digest: str | None = None
    """Of the weights, optimizers' states and random state that the script left behind, watched or not."""


APART = {"libraries", "ddp-no-sync", "ddp-loss-factor", "rank-local-decision"}
RANKS = {"ddp_no_sync_done_right", "allreduce_sum_of_shares"}
"""Kinds and scripts that need processes or libraries of their own: test_ranks and test_libraries run them."""


def scripts(folder):
    """(kind, file, whether it is correct) of each script below a folder that is run by itself."""
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder).parts
        if parts[0] not in APART and file.stem not in RANKS and not file.stem.endswith("_lib"):
            yield parts[0], file, parts[0] == "controls" or "fixed" in parts


def fault(script):
    """(file name, line) of the mark in a script or in the module beside it; None where neither has one."""
    for file in (script, script.with_name(f"{script.stem}_lib.py")):
        if file.exists():
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if MARK.search(line):
                    return file.name, number
    return None


def examine(script, *, seconds=120, watched=True):
    """Runs one script in a child of its own, watched or not."""
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_child, args=(Path(script).resolve(), theirs, watched))
    child.start()
    theirs.close()
    try:
        result = ours.recv() if ours.poll(seconds) else Examined(output="", ended=None, failure=f"no end within {seconds} s")
    except EOFError:
        result = Examined(output="", ended=None, failure="the child died")
    child.join(5)
    if child.is_alive():
        child.kill()
    return result


def digest(left):
    """Every bit of the modules and optimizers among a script's globals, their hooks, and the random state."""
    found = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    for name in sorted(left):
        value = left[name]
        if isinstance(value, torch.nn.Module):
            tensors = [*value.parameters(), *value.buffers()]
            found.update(
                repr([len(module._forward_hooks) + len(module._forward_pre_hooks) for module in value.modules()]).encode()
            )
        elif isinstance(value, torch.optim.Optimizer):
            tensors = [each for state in value.state.values() for each in state.values() if isinstance(each, torch.Tensor)]
            hooks = [
                getattr(value, name, ()) for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
            ]  # a wrapper has none
            found.update(repr([len(each) for each in hooks]).encode())
        else:
            tensors = [value] if isinstance(value, torch.Tensor) else []
        for tensor in tensors:
            dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
            found.update(dense.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b"")
    return found.hexdigest()


def _child(script, pipe, watched):
    gc.freeze()  # nothing that the test's process holds is the script's: the audit need not look through it for optimizers
    torch.set_num_threads(1)
    os.chdir(script.parent)
    sys.argv, sys.path[0:0] = [str(script)], [str(script.parent)]
    printed, ended, left = io.StringIO(), None, {}
    warnings.resetwarnings()  # those of the test's own process would end a script that merely warns
    watcher = start() if watched else None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            left = runpy.run_path(str(script), run_name="__main__")
        except SystemExit as ending:
            ended = f"SystemExit: {ending}"
        except BaseException as error:
            ended = f"{type(error).__name__}: {error}"
            if watcher is not None:
                watcher.raised(error)
    try:
        if watcher is None:
            pipe.send(Examined(output=printed.getvalue(), ended=ended, digest=digest(left)))
        else:
            watcher.stop()
            recorder = watcher.recorder
            findings = judge(Story(events=tuple(recorder.events), totals=recorder.totals()))
            coverage = recorder.coverage()
            pipe.send(Examined(output=printed.getvalue(), ended=ended, findings=findings, coverage=coverage, digest=digest(left)))
    except Exception:
        pipe.send(Examined(output=printed.getvalue(), ended=ended, failure=traceback.format_exc()))
    finally:
        pipe.close()
        os._exit(0)
