"""What the text of a script tells beside what it did: which `if` a call stands under, and what a value was made of."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Sequence
from pathlib import Path

from truestep.audit.reading.after import After
from truestep.audit.reading.counts import Claim, claims
from truestep.audit.reading.flow import Flow, Item
from truestep.audit.reading.names import Names, last
from truestep.audit.reading.numbers import Numbers
from truestep.audit.reading.text import Text, lists_parts, own, parsed, repeats, tests_above
from truestep.audit.site import Place, Site

SCALE = ("get_scale", "_scale")
"""What gives the loss scale."""
PACKAGES_DEEP = 4
"""How many folders above a file its imports are looked for in."""


class Sources:
    """Files read once, as syntax trees; what cannot be read tells nothing. `arguments` are the script's own."""

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self._files: dict[str, Names | None] = {}
        self.flow = Flow(self.names, self._module)
        self._numbers = Numbers(self.flow, arguments)
        self._products: dict[tuple[Site, float, bool], bool] = {}

    def names(self, path: str) -> Names | None:
        """The file at `path`, with all definitions in it; None where it cannot be read."""
        if path not in self._files:
            try:
                with tokenize.open(path) as file:
                    text = parsed(path, file.read())
            except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
                text = None
            self._files[path] = None if text is None else Names(text)
        return self._files[path]

    def text(self, place: Place) -> str | None:
        """The line itself, as it stands there; None where it cannot be read."""
        text = self._text(place)
        return text.lines[place.line - 1] if text is not None and 1 <= place.line <= len(text.lines) else None

    def statement(self, place: Place) -> str | None:
        """The whole statement that the line is part of; of a compound one, its head."""
        text = self._text(place)
        owner = None if text is None else text.at(place)
        if text is None or owner is None:
            return None
        first, last_line = text.extent(owner)
        if text.compound(owner):
            return "\n".join(text.lines[first - 1 : last_line]).strip()
        return ast.get_source_segment(text.source, owner)

    def condition(self, place: Place) -> Place | None:
        """The innermost `if` that decides whether the call is made this time round: its own branch, within the same loop.

        Where there is none, the last `if ...: continue` before it.
        """
        text = self._text(place)
        anchor = None if text is None else text.anchor(place)
        if text is None or anchor is None:
            return None
        left: list[ast.expr] = []
        for rung in text.climb(anchor):
            test = tests_above(rung)
            if test is not None:
                return _placed(place, test)
            left += text.exits(rung, by=(ast.Continue,))
            if repeats(rung):
                break
        return _placed(place, left[0]) if left else None

    def loop(self, place: Place) -> Place | None:
        """The innermost loop that the call is made in, in the same function; None where there is none."""
        text = self._text(place)
        anchor = None if text is None else text.anchor(place)
        if text is None or anchor is None:
            return None
        for rung in text.climb(anchor):
            if repeats(rung):
                return _placed(place, rung.parent)
        return None

    def loop_over_parts(self, site: Site) -> bool:
        """Whether the innermost loop around the call lists what it goes over itself, as in `for x, y in ((a, 1), (b, 0))`."""
        for place in (site.place, *site.callers):
            text = self._text(place)
            anchor = None if text is None else text.anchor(place)
            if text is None or anchor is None:
                return False
            loop = next((rung.parent for rung in text.climb(anchor) if repeats(rung)), None)
            if loop is not None:
                return isinstance(loop, ast.For) and lists_parts(loop.iter)
        return False

    def multiplied_by(self, site: Site, number: float, *, quotient: bool) -> bool:
        """Whether what the statement at `site` works with was multiplied by `number`, as far as the text gives numbers: a
        quotient, as 1 over a number of microbatches is, or one that is written somewhere as it is, as a coefficient is."""
        asked = site, number, quotient
        if asked not in self._products:  # the windows of a loop ask alike
            self._products[asked] = self._numbers.multiplied_by(self._arguments(site, None), number, quotient=quotient)
        return self._products[asked]

    def is_product(self, site: Site, argument: str | int | None) -> bool:
        """Whether a product has a part in an argument of the call at `site`; None asks of the whole statement."""
        origins = self.flow.origins(self._arguments(site, argument))
        return any(isinstance(each.node, (ast.BinOp, ast.AugAssign)) and isinstance(each.node.op, ast.Mult) for each in origins)

    def derives_from(self, site: Site, argument: str | int | None, method: str) -> bool:
        """Whether an argument of the call at `site` was computed from `.method`, a call or an attribute.

        By keyword or position; None asks of the whole statement.
        """
        return self.flow.derives(self._arguments(site, argument), method)

    def divided_by(self, site: Site, argument: str | int, number: float, tolerance: float = 1e-6) -> bool:
        """Whether an argument of the call at `site` was divided by `number`, as far as the text gives numbers, or what
        stands under that key was later. Relative tolerance."""
        items = self._arguments(site, argument)
        names = self.names(site.path)
        if names is not None and isinstance(argument, str):
            later = [each.value for each in names.members.get(argument, ()) if isinstance(each.value, ast.AugAssign)]
            items += [Item(node=each, names=names) for each in later]
        return number != 0 and self._numbers.divided_by(items, number, tolerance)

    def later_unscaled(self, site: Site) -> bool:
        """Whether what the statement at `site` computes is divided or multiplied by the loss scale, or compared with
        something in its units, there or later: in the function, in an attribute, or by a caller."""
        places = (site.place, *site.callers)
        for place in places:
            names = self.names(place.path)
            owner = None if names is None else names.text.at(place)
            if names is None or owner is None:
                return False
            after = After(names, owner, self.flow, SCALE)
            if after.undone():
                return True
            if not after.returned:
                return False
        return False

    def guarded_by(self, where: Place | Site, method: str) -> bool:
        """Whether the call is made only under a test of `.method`: of an `if` around it or one that leaves before it,
        in its function, or, given a site, in those that called it."""
        places = (where,) if isinstance(where, Place) else (where.place, *where.callers)
        return any(self._guard(place, method) is not None for place in places)

    def budget_beside_guarded(self, place: Place, method: str) -> bool:
        """Whether the line adds to a count that some test asks, whatever `.method` says, while another count in its function
        moves only under a test of it."""
        names = self.names(place.path)
        owner = None if names is None else names.text.at(place)
        if names is None or not isinstance(owner, ast.AugAssign) or self.guarded_by(place, method):
            return False
        nodes = list(ast.walk(names.text.tree))
        asked = {last(each) for node in nodes if isinstance(node, ast.Compare) for each in ast.walk(node)} - {""}
        scope = names.text.scope(owner)
        beside = [each for each in nodes if isinstance(each, ast.AugAssign) and names.text.scope(each) is scope]
        places = [Place(place.path, each.lineno, place.function) for each in beside if each is not owner]
        return last(owner.target) in asked and any(self.guarded_by(each, method) for each in places)

    def claim(self, place: Place) -> Claim | None:
        """What a line that counts up by one is taken for, where that is updates; None where it is not."""
        names = self.names(place.path)
        return None if names is None else next((each for each in claims(names) if each.node.lineno == place.line), None)

    def guard_text(self, place: Place, method: str | None = None) -> str | None:
        """The innermost test that decides whether the call is made, or the innermost of `.method`; None without one."""
        names = self.names(place.path)
        if names is None:
            return None
        test = next(iter(names.text.tests(place)), None) if method is None else self._guard(place, method)
        return None if test is None else ast.get_source_segment(names.text.source, test)

    def _guard(self, place: Place, method: str) -> ast.expr | None:
        names = self.names(place.path)
        tests = () if names is None else names.text.tests(place)
        if names is None:
            return None
        return next((test for test in tests if self.flow.derives([Item(node=test, names=names)], method)), None)

    def _arguments(self, site: Site, argument: str | int | None) -> list[Item]:
        names = self.names(site.path)
        if names is None:
            return []
        if argument is None:
            nodes = [each for owner in names.text.all_at(site.place) for each in own(owner) if isinstance(each, ast.expr)]
            return [Item(node=each, names=names, callers=site.callers or None) for each in nodes]
        calls = [Item(node=call, names=names, callers=site.callers or None) for call in names.text.calls(site.place)]
        return [value for call in calls for value in self.flow.argument(call, argument)]

    def _text(self, place: Place) -> Text | None:
        names = self.names(place.path)
        return None if names is None else names.text

    def _module(self, path: str, module: str, dots: int) -> Names | None:
        """The file of a module that is imported in the file at `path`; None where it is not beside it."""
        above = Path(path).parents
        folders = above[dots - 1 : dots] if dots else above[:PACKAGES_DEEP]
        parts = module.split(".") if module else []
        for folder in folders:
            stem = folder.joinpath(*parts)
            for file in (stem.with_suffix(".py"), stem / "__init__.py"):
                if file.is_file():
                    return self.names(str(file))
        return None


def _placed(place: Place, node: ast.AST) -> Place:
    return Place(place.path, getattr(node, "lineno", place.line), place.function)
