"""Judging scripts of several ranks fast: what they give to `mp.spawn` runs in forked processes, each of which is watched."""

import contextlib
import gc
import io
import os
import runpy
import sys
import traceback
import warnings
from pathlib import Path

import torch
import torch.distributed.nn.functional  # once for all ranks
import torch.multiprocessing

from tests.audit.harness import FORK, Examined
from truestep.audit.judge import judge, merged
from truestep.audit.process.ranks import compared
from truestep.audit.story import Story
from truestep.audit.trace import start


def examine_together(script, *, seconds=120):
    """Runs one script whose ranks are spawned; what all of them printed, and what was found over all of them."""
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_launcher, args=(Path(script).resolve(), theirs))
    child.start()
    theirs.close()
    try:
        result = ours.recv() if ours.poll(seconds) else Examined(output="", ended=None, failure=f"no end within {seconds} s")
    except EOFError:
        result = Examined(output="", ended=None, failure="the launcher died")
    child.join(5)
    if child.is_alive():
        child.kill()
    return result


def _launcher(script, pipe):
    gc.freeze()  # as harness does
    os.chdir(script.parent)
    sys.argv, sys.path[0:0] = [str(script)], [str(script.parent)]
    told, failure = [], None
    warnings.resetwarnings()  # those of the test's own process would end a script that merely warns

    def spawn(fn, args=(), nprocs=1, join=True, **_):
        told.extend(_ranks(fn, args, nprocs))

    torch.multiprocessing.spawn = spawn
    try:
        with contextlib.suppress(SystemExit):
            runpy.run_path(str(script), run_name="__main__")
        stories = compared([Story(events=events, totals=totals, rank=rank) for rank, (_, events, totals, _) in enumerate(told)])
        findings = merged(finding for story in stories for finding in judge(story))
    except BaseException:
        findings, failure = (), traceback.format_exc()
    unjudged = [each for _, _, _, coverage in told for each in coverage["not_judged"]]
    output = "".join(printed for printed, *_ in told)
    pipe.send(Examined(output=output, ended=None, findings=findings, coverage={"not_judged": unjudged}, failure=failure))
    pipe.close()
    os._exit(0)


def _ranks(fn, args, count):
    """What each rank printed, its events, totals and coverage."""
    pipes = []
    for rank in range(count):
        ours, theirs = FORK.Pipe(duplex=False)
        FORK.Process(target=_rank, args=(fn, rank, args, theirs)).start()
        theirs.close()
        pipes.append(ours)
    told = [pipe.recv() for pipe in pipes]
    failed = [each for each in told if isinstance(each, str)]
    if failed:
        raise RuntimeError(failed[0])
    return told


def _rank(fn, rank, args, pipe):
    printed = io.StringIO()
    watcher = start()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            fn(rank, *args)
            watcher.stop()
            told = printed.getvalue(), tuple(watcher.recorder.events), watcher.recorder.totals(), watcher.recorder.coverage()
        except BaseException:
            told = traceback.format_exc()
    pipe.send(told)
    pipe.close()
    os._exit(0)
