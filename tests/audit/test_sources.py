"""What the text of a script tells: the test a call stands under, its loop, and what a value was made of."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from truestep.audit.site import Place, Site
from truestep.audit.sources import Sources

MARK = "# here"


class Script:
    """A file with the line of interest marked by `# here`, and its callers by `# caller 1`, innermost first."""

    def __init__(self, folder: Path, source: str, name: str = "train.py") -> None:
        self.file = folder / name
        self.file.write_text(textwrap.dedent(source).lstrip("\n"))
        self.lines = self.file.read_text().split("\n")

    def line(self, mark: str) -> int:
        return next(number for number, text in enumerate(self.lines, 1) if mark in text)

    def place(self, function: str = "<module>", mark: str = MARK) -> Place:
        return Place(str(self.file), self.line(mark), function)

    def site(self, function: str = "<module>") -> Site:
        marks = [mark for mark in ("# caller 1", "# caller 2") if any(mark in text for text in self.lines)]
        return Site(self.place(function), tuple(self.place(mark=mark) for mark in marks))


@pytest.fixture
def script(tmp_path):
    return lambda source, **named: Script(tmp_path, source, **named)


def test_a_file_that_is_missing_or_broken_tells_nothing(tmp_path, script):
    broken = script("def f(:  # here\n")
    binary = tmp_path / "b.py"
    binary.write_bytes(b"\xff\xfe\x00x = 1\n")
    for place in (Place(str(tmp_path / "absent.py"), 1), broken.place(), Place(str(binary), 1), Place("<stdin>", 1)):
        sources, site = Sources(), Site(place, (place,))
        assert sources.text(place) is None
        assert sources.statement(place) is None
        assert sources.condition(place) is None
        assert sources.loop(place) is None
        assert sources.guard_text(place) is None
        assert sources.derives_from(site, 1, "get_scale") is False
        assert sources.later_unscaled(site) is False
        assert sources.divided_by(site, "lr", 4) is False
        assert sources.guarded_by(site, "get_scale") is False


def test_a_file_is_read_once(script):
    one = script("x = 1  # here")
    sources = Sources()
    assert sources.text(one.place()) == "x = 1  # here"
    one.file.unlink()
    assert sources.text(one.place()) == "x = 1  # here"
    assert sources.text(Place(str(one.file), 7)) is None


@pytest.mark.parametrize("line", [2, 3, 4, 5])
def test_a_statement_is_whole_from_any_of_its_lines(script, line):
    one = script("""
        if ready:
            clip(
                params,
                1.0,
            )
        """)
    assert Sources().statement(Place(str(one.file), line)) == "clip(\n        params,\n        1.0,\n    )"


@pytest.mark.parametrize(
    ("source", "statement"),
    [
        ("for x in f():  # here\n    g(x)\n", "for x in f():  # here"),
        ("@wrap(1)  # here\ndef f():\n    g()\n", "@wrap(1)  # here\ndef f():"),
        ("if a: b()  # here\n", "b()"),
        ("with a() as x, b():  # here\n    pass\n", "with a() as x, b():  # here"),
        ("a = 1; b()  # here\n", "b()"),
        ("match f():\n    case 1 if g():  # here\n        pass\n", "case 1 if g():  # here"),
    ],
)
def test_a_statement_with_a_body_is_its_head(script, source, statement):
    assert Sources().statement(script(source).place()) == statement


CONDITIONS = {
    "plain": ("if ready:  # test\n    step()  # here\n", True),
    "one line": ("if ready: step()  # here # test\n", True),
    "elif": ("if a:\n    pass\nelif ready:  # test\n    step()  # here\n", True),
    "else": ("if ready:\n    pass\nelse:\n    step()  # here\n", False),
    "else under another": ("if a:  # test\n    if ready:\n        pass\n    else:\n        step()  # here\n", True),
    "outside the loop": ("if a:\n    for x in y:\n        step()  # here\n", False),
    "while is no if": ("while a:\n    step()  # here\n", False),
    "with and try between": (
        "if a:  # test\n    with b:\n        try:\n            step()  # here\n        finally:\n            pass\n",
        True,
    ),
    "finally": ("if a:  # test\n    try:\n        pass\n    finally:\n        step()  # here\n", True),
    "the test itself": ("if step():  # here\n    pass\n", False),
    "half an expression": ("x = step() if ready else None  # here # test\n", True),
    "the other half": ("x = None if ready else step()  # here\n", False),
    "and": ("ready and step()  # here # test\n", True),
    "or": ("ready or step()  # here\n", False),
    "comprehension": ("x = [step(y) for y in z if ready(y)]  # here # test\n", True),
    "comprehension under if": ("if a:\n    x = [step(y) for y in z]  # here\n", False),
    "walrus": ("if (n := f()) > 1:  # test\n    step()  # here\n", True),
    "match": ("if a:  # test\n    match b:\n        case 1:\n            step()  # here\n", True),
    "continue": ("for i in y:\n    if i % 4:  # test\n        continue\n    step()  # here\n", True),
    "break is no condition of this round": ("for i in y:\n    if i > 4:\n        break\n    step()  # here\n", False),
    "several lines": ("if (\n    ready  # test\n    and more\n):\n    step(\n        1,  # here\n    )\n", True),
    "async": ("async def f():\n    async for x in y:\n        if x:  # test\n            await step(x)  # here\n", True),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_decides_whether_the_call_is_made_in_this_round(script, name):
    source, found = CONDITIONS[name]
    one = script(source)
    function = "f" if "def f" in source else "<module>"
    expected = Place(str(one.file), one.line("# test"), function) if found else None
    assert Sources().condition(one.place(function)) == expected


def test_a_condition_is_of_the_same_function(script):
    source = "if a:\n    def f(): return step()  # here\n    f()\n"
    assert Sources().condition(script(source).place("f")) is None
    source = "if ready:  # test\n    run(lambda: step())  # here\n"
    assert Sources().condition(script(source).place("<lambda>")) is None
    assert Sources().condition(script(source).place()) == script(source).place(mark="# test")


def test_a_decorator_stands_outside_of_the_function_it_decorates(script):
    one = script("if a:  # test\n    @wrap(step())  # here\n    def f():\n        pass\n")
    assert Sources().condition(one.place()) == one.place(mark="# test")


def test_a_loop_is_the_innermost_of_the_function(script):
    one = script("""
        for epoch in e:
            for x in y:  # loop
                if x:
                    step()  # here
            after()  # after
        else:
            last()  # else
        while ready():  # while
            pass
        for x in first():  # iter
            pass
        z = [f(x) for x in y]  # comprehension
        def g():
            step()  # inner
        """)
    sources = Sources()
    assert sources.loop(one.place()) == one.place(mark="# loop")
    assert sources.loop(one.place(mark="# after")) == one.place(mark="for epoch")
    assert sources.loop(one.place(mark="# while")) == one.place(mark="# while")
    assert sources.loop(one.place(mark="# comprehension")) == one.place(mark="# comprehension")
    for mark, function in (("# else", "<module>"), ("# iter", "<module>"), ("# inner", "g")):
        assert sources.loop(one.place(function, mark)) is None


DERIVED = {
    "at once": "clip(params, 1.0 * scaler.get_scale())  # here",
    "by a name": "limit = 1.0 * scaler.get_scale()\nclip(params, limit)  # here",
    "by two": "s = scaler.get_scale()\nlimit = 1.0\nlimit *= s\nclip(params, limit)  # here",
    "unpacked": "limit, other = scaler.get_scale(), 1\nclip(params, limit)  # here",
    "by a loop": "for i in r:\n    clip(params, limit)  # here\n    limit = scaler.get_scale()",
    "walrus": "if (s := scaler.get_scale()):\n    clip(params, s)  # here",
    "a helper": "def scaled(x):\n    return x * scaler.get_scale()\nclip(params, scaled(1.0))  # here",
    "a lambda": "scaled = lambda x: x * scaler.get_scale()\nclip(params, scaled(1.0))  # here",
    "a dict": "cfg = {'a': 1}\ncfg['limit'] = scaler.get_scale()\nclip(params, cfg['limit'])  # here",
    "a literal": "cfg = {'a': 1, 'limit': scaler.get_scale()}\nclip(params, cfg['limit'])  # here",
    "a list": "xs = []\nxs.append(scaler.get_scale())\nclip(params, xs[-1])  # here",
    "getattr": "clip(params, getattr(scaler, 'get_scale')())  # here",
    "starred": "args = (params, scaler.get_scale())\nclip(*args)  # here",
    "a comprehension": "clip(params, max(s for s in [scaler.get_scale()]))  # here",
    "with": "with scaler.get_scale() as s:\n    clip(params, s)  # here",
    "match": "match scaler.get_scale():\n    case s:\n        clip(params, s)  # here",
    "try": "try:\n    s = scaler.get_scale()\nexcept E:\n    s = 1\nclip(params, s)  # here",
    "several lines": "clip(  # here\n    params,\n    scaler\n    .get_scale(),\n)",
    "nested call": "log(clip(params, scaler.get_scale()))  # here",
}
PLAIN = {
    "at once": "clip(params, 1.0)  # here",
    "another argument": "clip(scaler.get_scale(), 1.0)  # here",
    "replaced": "limit = scaler.get_scale()\nlimit = 1.0\nclip(params, limit)  # here",
    "later": "limit = 1.0\nclip(params, limit)  # here\nlimit = scaler.get_scale()",
    "replaced each round": "for i in r:\n    limit = 1.0\n    clip(params, limit)  # here\n    limit = scaler.get_scale()",
    "another key": "cfg = {'a': scaler.get_scale(), 'limit': 1.0}\nclip(params, cfg['limit'])  # here",
    "another function's name": "def f():\n    limit = scaler.get_scale()\nlimit = 1.0\nclip(params, limit)  # here",
    "unpacked": "other, limit = scaler.get_scale(), 1\nclip(params, limit)  # here",
    "on one line": "clip(params, 1.0); s = scaler.get_scale()  # here",
}


@pytest.mark.parametrize("name", DERIVED)
def test_a_value_is_followed_to_the_call_it_was_made_of(script, name):
    assert Sources().derives_from(script(DERIVED[name]).site(), 1, "get_scale")


@pytest.mark.parametrize("name", PLAIN)
def test_a_value_is_not_made_of_what_never_reaches_it(script, name):
    assert not Sources().derives_from(script(PLAIN[name]).site(), 1, "get_scale")


def test_a_value_is_followed_by_keyword_and_through_the_whole_statement(script):
    one = script("norm = clip(params, max_norm=scaler.get_scale() * 1)  # here")
    assert Sources().derives_from(one.site(), "max_norm", "get_scale")
    assert Sources().derives_from(one.site(), None, "get_scale")
    assert not Sources().derives_from(one.site(), "norm_type", "get_scale")
    assert not Sources().derives_from(one.site(), "max_norm", "get_growth_factor")


def test_a_value_is_followed_through_an_attribute_set_in_another_method(script):
    one = script("""
        class Trainer:
            def scale(self):
                self.limit = self.scaler.get_scale()
            def clip(self):
                clip(self.params, self.limit)  # here
                clip(self.params, self.other)  # other
        """)
    assert Sources().derives_from(one.site("clip"), 1, "get_scale")
    assert not Sources().derives_from(Site(one.place("clip", "# other")), 1, "get_scale")


def test_a_parameter_is_followed_into_the_line_that_called(script):
    one = script("""
        def clip_all(params, *, limit=1.0):
            clip(params, limit)  # here
        def train():
            clip_all(params)
            clip_all(params, limit=scaler.get_scale())  # caller 1
        train()  # caller 2
        """)
    assert Sources().derives_from(one.site("clip_all"), 1, "get_scale")
    plain = Site(one.place("clip_all"), (one.place("train", "clip_all(params)"),))
    assert not Sources().derives_from(plain, 1, "get_scale")


def test_a_parameter_of_a_method_is_the_argument_after_self(script):
    one = script("""
        class Trainer:
            def __init__(self, scale, limit):
                clip(self.params, limit)  # here
        Trainer(1.0, scaler.get_scale())  # caller 1
        """)
    assert Sources().derives_from(one.site("__init__"), 1, "get_scale")


def test_a_value_is_followed_into_a_module_beside_the_script(script):
    script("def scaled(scaler):\n    return scaler.get_scale()\nONE = 1.0\n", name="helper.py")
    one = script("""
        import helper
        from helper import scaled
        clip(params, helper.scaled(scaler))  # here
        clip(params, scaled(scaler))  # named
        clip(params, helper.ONE)  # one
        """)
    assert Sources().derives_from(one.site(), 1, "get_scale")
    assert Sources().derives_from(Site(one.place(mark="# named")), 1, "get_scale")
    assert not Sources().derives_from(Site(one.place(mark="# one")), 1, "get_scale")


DIVIDED = {
    "at once": "SGD(params, lr=0.1 / 4)  # here",
    "by a constant": "ACC = 4\nLR = 0.1 / ACC\nSGD(params, lr=LR)  # here",
    "by the inverse": "SGD(params, lr=0.25 * base)  # here",
    "by its inverse, computed": "ACC = 4\nSGD(params, lr=base * (1 / ACC))  # here",
    "by its power": "ACC = 4\nSGD(params, lr=base * ACC ** -1)  # here",
    "by more": "SGD(params, lr=base / (world * 4))  # here",
    "by a product": "SGD(params, lr=base / (2 * 2))  # here",
    "by a default": "class Cfg:\n    accum: int = 4\ncfg = Cfg()\nSGD(params, lr=0.1 / cfg.accum)  # here",
    "by a given one": "class Cfg:\n    accum: int = 1\ncfg = Cfg(accum=4)\nSGD(params, lr=0.1 / cfg.accum)  # here",
    "by an option": (
        "p.add_argument('--accum-steps', type=int, default=4)\na = p.parse_args()\nSGD(params, lr=0.1 / a.accum_steps)  # here"
    ),
    "by a dict": "cfg = {'accum': 4, 'lr': 0.1}\nSGD(params, lr=cfg['lr'] / cfg['accum'])  # here",
    "in place": "lr = 0.1\nlr /= 4\nSGD(params, lr=lr)  # here",
    "by a length": "steps = [1, 2, 3, 4]\nSGD(params, lr=0.1 / len(steps))  # here",
    "by a function": "def scaled(lr):\n    return lr / 4\nSGD(params, lr=scaled(0.1))  # here",
    "spread": "kw = dict(lr=0.1 / 4)\nSGD(params, **kw)  # here",
    "in a group": "SGD([{'params': params, 'lr': 0.1 / 4}])  # here",
    "by the environment": "acc = int(os.environ.get('ACC', '4'))\nSGD(params, lr=0.1 / acc)  # here",
    "afterwards": "opt = SGD(params, lr=0.1)  # here\nfor g in opt.param_groups:\n    g['lr'] /= 4",
    "by an attribute": (
        "class T:\n    def __init__(self):\n        self.acc = 4\n    def make(self):\n"
        "        return SGD(params, lr=0.1 / self.acc)  # here"
    ),
    "by a parameter": "def make(lr, acc):\n    return SGD(params, lr=lr / acc)  # here\nmake(0.1, 4)  # caller 1",
}
UNDIVIDED = {
    "a plain number": "SGD(params, lr=0.1)  # here",
    "a number that is the inverse": "SGD(params, lr=0.25)  # here",
    "by another": "ACC = 8\nSGD(params, lr=0.1 / ACC)  # here",
    "another argument": "SGD(params, lr=0.1, momentum=0.9 / 4)  # here",
    "multiplied": "SGD(params, lr=0.1 * 4)  # here",
    "divides": "SGD(params, lr=4 / x)  # here",
    "unknown": "SGD(params, lr=0.1 / accum)  # here",
    "a power too large": "SGD(params, lr=0.1 / 10.0 ** 10.0 ** 10.0)  # here",
    "itself": "lr = lr\nSGD(params, lr=lr)  # here",
}


@pytest.mark.parametrize("name", DIVIDED)
def test_a_division_by_a_number_is_found(script, name):
    function = "make" if "def make" in DIVIDED[name] else "<module>"
    one = script(DIVIDED[name])
    assert Sources().divided_by(one.site(function), "lr", 4)
    assert not Sources().divided_by(one.site(function), "lr", 3)


@pytest.mark.parametrize("name", UNDIVIDED)
def test_a_division_that_is_not_made_is_not_found(script, name):
    assert not Sources().divided_by(script(UNDIVIDED[name]).site(), "lr", 4)


@pytest.mark.parametrize("arguments", [("--accum", "8"), ("--accum=8",), ("-a", "8")])
def test_an_option_has_the_value_that_the_script_was_given(script, arguments):
    one = script("p.add_argument('--accum', '-a', type=int, default=4)\nSGD(params, lr=0.1 / args.accum)  # here")
    assert Sources(arguments).divided_by(one.site(), "lr", 8)
    assert not Sources(arguments).divided_by(one.site(), "lr", 4)


LATER = {
    "there": "norm = total(params) / scaler.get_scale()  # here",
    "in the element": "log.append(stack([p.grad.norm() / scaler.get_scale() for p in ps]))  # here",
    "by a name": "norm = total(params)  # here\nprint(norm / scaler.get_scale())",
    "in place": "norm = total(params)  # here\nnorm /= scaler.get_scale()",
    "by the inverse": "inv = 1.0 / scaler.get_scale()\nnorm = total(params)  # here\nprint(norm * inv)",
    "by a method": "norm = total(params)  # here\nnorm.div_(scaler._scale)",
    "by two names": "norm = total(params)  # here\nx = norm.item()\nprint(x / scaler.get_scale())",
    "from a list": "norms.append(total(params))  # here\nprint([n / scaler.get_scale() for n in norms])",
    "over a loop": "for p in ps:\n    t += p.grad.norm() ** 2  # here\nprint(t ** 0.5 / scaler.get_scale())",
    "in the next round": "for i in r:\n    print(norm / scaler.get_scale())\n    norm = total(params)  # here",
    "in another function": "def show(n, s):\n    print(n / s)\nnorm = total(params)  # here\nshow(norm, scaler.get_scale())",
    "compared": "norm = total(params)  # here\nif norm > limit * scaler.get_scale():\n    pass",
    "a clip by hand": "norm = total(params)  # here\nc = min(1.0, limit * scaler.get_scale() / norm)",
    "returned": "def read():\n    return total(params)  # here\nprint(read() / scaler.get_scale())  # caller 1",
    "an attribute": (
        "class T:\n    def read(self):\n        self.norm = total(params)  # here\n"
        "    def show(self):\n        print(self.norm / self.scaler.get_scale())"
    ),
}
NEVER = {
    "logged": "norm = total(params)  # here\nprint(norm)",
    "a scaled limit only": "norm = clip(params, 1.0 * scaler.get_scale())  # here\nprint(norm)",
    "a limit in two scales": "norm = clip(params, scaler.get_scale() / old.get_scale())  # here\nprint(norm)",
    "before": "norm = x\nprint(norm / scaler.get_scale())\nnorm = total(params)  # here",
    "another name": "norm = total(params)  # here\nprint(loss / scaler.get_scale())",
    "divided by another": "norm = total(params)  # here\nprint(norm / len(ps), scaler.get_scale())",
    "added": "norm = total(params)  # here\nprint(norm + scaler.get_scale())",
}


@pytest.mark.parametrize("name", LATER)
def test_a_value_put_back_into_original_units_is_seen(script, name):
    assert Sources().later_unscaled(script(LATER[name]).site("read" if "def read" in LATER[name] else "<module>"))


@pytest.mark.parametrize("name", NEVER)
def test_a_value_left_in_scaled_units_is_told(script, name):
    assert not Sources().later_unscaled(script(NEVER[name]).site())


def test_a_value_returned_to_another_file_is_followed_there(script):
    helper = script("def read(ps):\n    return total(ps)  # here\n", name="helper.py")
    for use, undone in (("print(norm / scaler.get_scale())", True), ("print(norm)", False)):
        one = script(f"from helper import read\nnorm = read(ps)  # caller\n{use}\n")
        site = Site(helper.place("read"), (one.place(mark="# caller"),))
        assert Sources().later_unscaled(site) is undone


GUARDED = {
    "at once": "if scaler.get_scale() >= before:\n    sched.step()  # here",
    "else": "if scaler.get_scale() < before:\n    pass\nelse:\n    sched.step()  # here",
    "by a name": "skipped = scaler.get_scale() < before\nif not skipped:\n    sched.step()  # here",
    "a flag": "ok = True\nif scaler.get_scale() < before:\n    ok = False\nif ok:\n    sched.step()  # here",
    "outside of the loop": "if scaler.get_scale() > 1:\n    for s in scheds:\n        s.step()  # here",
    "continue": "for x in y:\n    if scaler.get_scale() < before:\n        continue\n    sched.step()  # here",
    "return": "def f():\n    if scaler.get_scale() < before: return\n    sched.step()  # here",
    "a continue in the else": (
        "for x in y:\n    if scaler.get_scale() >= before:\n        pass\n    else:\n        continue\n    sched.step()  # here"
    ),
    "a helper": "def fell():\n    return scaler.get_scale() < before\nif not fell():\n    sched.step()  # here",
    "a helper's branch": (
        "def fell():\n    if scaler.get_scale() < before:\n        return True\n    return False\n"
        "if not fell():\n    sched.step()  # here"
    ),
    "and": "scaler.get_scale() >= before and sched.step()  # here",
    "or": "scaler.get_scale() < before or sched.step()  # here",
    "half an expression": "x = sched.step() if scaler.get_scale() >= before else None  # here",
    "walrus": "if (now := scaler.get_scale()) >= before:\n    sched.step()  # here",
    "on one line": "if scaler.get_scale() >= before: sched.step()  # here",
    "a counter": "if scaler.get_scale() >= before:\n    done += 1\nif done > last:\n    sched.step()  # here",
    "match": "match scaler.get_scale() < before:\n    case False:\n        sched.step()  # here",
    "a while": "while scaler.get_scale() >= before:\n    sched.step()  # here",
    "an attribute": (
        "class T:\n    def a(self):\n        self.ok = self.scaler.get_scale() >= 1\n"
        "    def f(self):\n        if self.ok:\n            self.sched.step()  # here"
    ),
}
UNGUARDED = {
    "none": "sched.step()  # here",
    "beside": "if scaler.get_scale() >= before:\n    pass\nsched.step()  # here",
    "another test": "scale = scaler.get_scale()\nif ready:\n    sched.step()  # here",
    "the test itself": "if sched.step() or scaler.get_scale():  # here\n    pass",
    "after": "sched.step()  # here\nif scaler.get_scale() < before:\n    raise E",
    "another function": "if scaler.get_scale() > 1:\n    def f():\n        sched.step()  # here",
}


@pytest.mark.parametrize("name", GUARDED)
def test_a_guard_is_found(script, name):
    source = GUARDED[name]
    place = script(source).place("f" if "def f(" in source else "<module>")
    assert Sources().guarded_by(place, "get_scale")
    assert not Sources().guarded_by(place, "found_inf")


@pytest.mark.parametrize("name", UNGUARDED)
def test_a_call_without_a_guard_has_none(script, name):
    source = UNGUARDED[name]
    assert not Sources().guarded_by(script(source).place("f" if "def f(" in source else "<module>"), "get_scale")


def test_a_guard_of_the_caller_counts_where_the_callers_are_known(script):
    one = script("""
        def tick():
            sched.step()  # here
        if scaler.get_scale() >= before:
            tick()  # caller 1
        """)
    assert Sources().guarded_by(one.site("tick"), "get_scale")
    assert not Sources().guarded_by(one.place("tick"), "get_scale")


def test_the_text_of_a_guard_is_its_test(script):
    one = script("if scaler.get_scale() >= before:\n    if i % 4 == 0:\n        sched.step()  # here")
    assert Sources().guard_text(one.place()) == "i % 4 == 0"
    assert Sources().guard_text(one.place(), "get_scale") == "scaler.get_scale() >= before"
    assert Sources().guard_text(one.place(), "found_inf") is None


def test_statements_beside_one_another_on_a_line_are_read_together(script):
    one = script("""
        loss = criterion(out, y); loss = loss * 0.3; (loss / 8).backward(); clip(params, 2.0 * scaler.get_scale())  # here
        """)
    sources, site = Sources(), one.site()
    assert sources.multiplied_by(site, 0.3, quotient=False)
    assert sources.derives_from(site, 1, "get_scale")
    assert sources.is_product(site, 1)
    assert not sources.is_product(site, 0)
