"""The best validation quality of a built-in task in float32 on seeds that no comparison uses: what its target is set by.

usage: pilot.py TASK [FIRST LAST]      (for example: bytes-lm; the seeds are 100 to 109 unless said)
Each run goes on to the end of its budget. `met after` is the number of updates at which the declared target was met first.
"""

import statistics
import sys

from truestep.run import Settings, train
from truestep.tasks import load

TASK = load(sys.argv[1])
FIRST, LAST = (int(word) for word in sys.argv[2:4] or (100, 109))
best = []
for seed in range(FIRST, LAST + 1):
    record = train(TASK, Settings(device="cpu", threads=1, stop_at_target=False), seed=seed)
    qualities = [evaluation.quality for evaluation in record.evaluations]
    best.append(max(qualities) if TASK.quality_better == "higher" else min(qualities))
    met = record.to_target.completed if record.to_target else "never"
    seconds = f"{record.clocks.primary:.1f} s + {record.clocks.eval:.1f} s of evaluation"
    print(f"seed {seed}  best {best[-1]:.4f}  met after {met}  {seconds}", flush=True)
print(f"{TASK.quality_name}: median best {statistics.median(best):.4f}, target {TASK.target}")
