"""A lab of tests with an exercise of every kind, and answers to them."""

from truestep.labs.asking.ask import Buckets, Build, Choice, Column, Find, Number, Open, Option, Tempting
from truestep.labs.lab import Lab
from truestep.labs.shown import Check, Shown, Table

SCRIPT = """import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(3, 8, 4):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""
OPTIONS = (
    Option(text="its length", value="length", why="too short"),
    Option(text="its direction", value="direction", why="tempting, for value clips bend"),
    Option(text="nothing", value="nothing", why="tempting, for it learns"),
)
TABLE = Table(
    title="fields",
    columns=("format", "bits", "spread", "name"),
    rows=(("half", 10, (1.0, 2.0), "float16"), ("single", 23, (0.5, 4.0), "float32")),
)
BUCKETS = {"matmul": "low", "sum": "high", "exp": "high"}


def shows():
    checks = (
        Check(what="reached", expected=0.2, measured=0.2, because="so"),
        Check(what="fault", expected="length", measured="length", because="so"),
        Check(what="largest", expected=float("inf"), measured=float("inf"), because="so"),
    )
    return Shown(checks=checks, tables=(TABLE,))


def column(key, blank):
    return Column(key=key, prompt="What is missing?", table=lambda shown: shown.table("fields"), blank=blank, why="count")


LAB = Lab(
    name="made",
    facts=(),
    topic="formats",
    title="Every kind",
    claim="There is one.",
    source="none",
    shows=shows,
    asks=(
        Number(
            key="number",
            prompt="What is reached?",
            unit="m",
            answer=lambda shown: shown.measured("reached"),
            why="unscaled first",
            tempting=(Tempting(value=lambda shown: 1.0, why="the limit is not what passes"),),
        ),
        Number(key="endless", prompt="And the largest?", answer=lambda shown: shown.measured("largest"), why="beyond 65504"),
        Choice(key="choice", prompt="What is wrong?", options=OPTIONS, answer=lambda shown: shown.measured("fault")),
        Choice(key="out", prompt="Rule out.", options=OPTIONS, answer=lambda shown: shown.measured("fault"), eliminate=True),
        column("bits", "bits"),
        column("spread", "spread"),
        column("name", "name"),
        Buckets(
            key="buckets",
            prompt="Sort.",
            buckets=("low", "high"),
            answer=lambda _: BUCKETS,
            why={"matmul": "it multiplies", "sum": "many terms", "exp": "it grows"},
        ),
        Find(key="find", prompt="Which line?", script=SCRIPT, why="gradients are never cleared"),
        Build(key="build", prompt="Build it.", milestone="1", why="the order is the point"),
        Open(
            key="open",
            prompt="Why?",
            rubric=("says this", "says that"),
            strong="this and that",
            weak="because",
            follow_up="and if not?",
        ),
    ),
)
ASKS = {ask.key: ask for ask in LAB.asks}
RIGHT = {
    "number": "1/5",
    "endless": "inf",
    "choice": "its length",
    "out": ["nothing", "its direction"],
    "bits": ["10", 23],
    "spread": ["1 2", [0.5, 4]],
    "name": ["Float16", "float32"],
    "buckets": BUCKETS,
    "open": {"text": "this and that", "points": [True, True]},
}
WRONG = {
    "number": 1,
    "endless": 65504,
    "choice": "nothing",
    "out": ["nothing", "its length"],
    "bits": [10, 10],
    "spread": ["1 2", "4"],
    "name": ["float16", "float16"],
    "buckets": BUCKETS | {"sum": "low"},
    "open": {"text": "because", "points": [False, True]},
}
