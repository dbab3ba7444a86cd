"""Stories made by hand: events with all fields that a test does not care about filled in."""

from truestep.audit import events
from truestep.audit.site import Place, Site
from truestep.audit.story import Story, Totals

FIELDS = {
    "ScalerMade": {"scaler": 0, "asked": True, "enabled": True, "device": "cpu", "scale": 1024.0, "growth_interval": 2000},
    "OptimizerMade": {"optimizer": 0, "kind": "SGD", "fused": False, "parameters": 2, "lr": 0.1, "eps": None, "momentum": None},
    "SchedulerMade": {"scheduler": 0, "kind": "StepLR", "optimizer": 0},
    "Backward": {
        "number": 1,
        "scaler": 0,
        "scale": 1024.0,
        "carried": "all",
        "touched": (0,),
        "kept": (),
        "loss": 1.0,
        "finite": True,
        "norm": 1.0,
        "share": None,
        "unread": None,
        "divided": None,
        "forward": None,
        "forwards": 1,
        "low": "float16",
        "inside_autocast": False,
        "synced": None,
        "examples": 8,
        "tokens": None,
    },
    "Unscaled": {"scaler": 0, "optimizer": 0, "scale": 1024.0, "found_inf": False, "inside": True},
    "Clipped": {
        "how": "norm",
        "limit": 1.0,
        "norm": 2.0,
        "optimizers": (0,),
        "carried": 1.0,
        "factor": 0.5,
        "finite": True,
        "strict": False,
    },
    "Edited": {"operation": "div", "optimizers": (0,), "carried": 1.0, "ratio": 0.5, "cosine": 1.0, "hid": False},
    "Zeroed": {"optimizer": 0, "dropped": ()},
    "StepCalled": {"scaler": 0, "optimizer": 0, "closure": False},
    "Stepped": {
        "optimizer": 0,
        "scaler": 0,
        "completed": True,
        "closure": False,
        "fused": False,
        "lr": 0.1,
        "backwards": (),
        "dropped": (),
        "carried": 1.0,
        "finite": True,
        "judged": None,
        "damage": None,
        "moved": None,
        "first": False,
    },
    "Updated": {"scaler": 0, "before": 1024.0, "after": 1024.0, "by_hand": False},
    "Ticked": {
        "scheduler": 0,
        "kind": "StepLR",
        "optimizer": 0,
        "number": 1,
        "attempts": 1,
        "completed": 1,
        "backwards": 1,
        "metric": False,
    },
    "Averaged": {
        "average": 0,
        "by_hand": False,
        "dtype": "float32",
        "number": 1,
        "attempts": 1,
        "completed": 1,
        "asked": 0,
        "moved": 0,
        "backwards": 1,
    },
    "Rewritten": {"operation": "mul", "optimizer": 0, "ratio": 0.99, "attempts": 1, "completed": 1},
    "Saved": {"models": 1, "optimizers": 1, "scalers": 0, "schedulers": 0, "open": ()},
    "Loaded": {"models": 1, "optimizers": 1, "scalers": 1, "schedulers": 0},
    "Restored": {"what": "optimizer", "which": 0},
    "Poisoned": {"module": "BatchNorm1d 'norm'", "buffers": ("running_mean",)},
    "Overflowed": {"operation": "linear", "module": "Linear", "dtype": "float16", "largest": 1000000.0, "in_loss": False},
    "Raised": {"kind": "RuntimeError", "text": ""},
    "Autocast": {"device": "cpu", "dtype": "float16", "enabled": True, "outer": None, "asked": True},
    "LowParameters": {"optimizer": 0, "dtype": "float16", "parameters": 4},
    "OddGradients": {"optimizer": 0, "what": "complex", "parameters": 1},
    "Cut": {"how": "detached", "optimizers": (0,)},
    "Unsafe": {"operation": "binary_cross_entropy", "dtype": "float16"},
    "Vanished": {"number": 1e-8, "dtype": "float16", "operation": "add"},
    "Lost": {"dtype": "bfloat16", "moved": 0, "asked": 8},
    "GradientRead": {"value": 2048.0, "carried": 1024.0, "operation": "item"},
    "PenaltyInScaledUnits": {"scale": 1024.0, "operation": "sub"},
    "Ranks": {"what": "completed", "optimizer": 0, "values": (1.0, 0.0)},
    "Reduced": {"what": "gradient", "operation": "sum", "ranks": 2, "optimizers": (0,), "given": 1.0, "made": 2.0},
    "Healed": {"module": "BatchNorm1d 'norm'"},
}


def at(line, *callers, path="train.py", function="<module>"):
    """A site in the script; each caller is a (line, function)."""
    return Site(place=Place(path, line, function), callers=tuple(Place(path, *caller) for caller in callers))


class Telling:
    """Events in order; `line` is a number or a whole site."""

    def __init__(self, path="train.py", totals=None):
        self.path, self.events, self.totals = str(path), [], totals or Totals()
        self.backwards = 0

    def tell(self, kind, /, line=1, **fields):
        """One event of the kind of this name."""
        site = line if isinstance(line, Site) or line is None else at(line, path=self.path)
        self.events.append(getattr(events, kind)(order=len(self.events) + 1, site=site, **{**FIELDS[kind], **fields}))
        return self

    def backward(self, line=10, **fields):
        """A backward, numbered from 1."""
        self.backwards += 1
        return self.tell("Backward", line, number=self.backwards, **fields)

    def step(self, line=20, *, last=1, **fields):
        """An attempt with the gradients of the last few backwards."""
        numbers = tuple(range(self.backwards - last + 1, self.backwards + 1))
        return self.tell("Stepped", line, **{"backwards": numbers, **fields})

    def story(self):
        """All of it."""
        return Story(events=tuple(self.events), totals=self.totals)


def found(rule, telling):
    """Severity and line of each finding of a rule."""
    return [(finding.severity, finding.line) for finding in rule(telling.story())]
