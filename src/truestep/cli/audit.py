"""`truestep audit`: run a training script as it stands, judge its updates, and name what is wrong with them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from truestep.audit.finding import Rule
from truestep.audit.report import baseline as baselines
from truestep.audit.report import ignores
from truestep.audit.report.document import rules_document
from truestep.audit.report.places import seen_from
from truestep.audit.report.sorting import Sorted, without_ignored
from truestep.audit.report.text import explained
from truestep.cli import _findings
from truestep.cli._options import demand_writable
from truestep.cli._output import print_json, print_table
from truestep.errors import FileError, UsageError
from truestep.pages.words import counted

if TYPE_CHECKING:
    from truestep.audit.process import Audited

_FOUND, _COULD_NOT_RUN, _SIGNALLED = 1, 3, 128
"""Exit codes; the last with the signal's number added."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Run a training script unchanged, and name what is wrong with its updates: line, numbers, damage, smallest change.

    What follows SCRIPT is the script's own. Exit code 1: errors or warnings; 3: the script failed, and no finding says why.
    """

    command: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SCRIPT [ARGS...]")] = ()
    """The script, and what it is called with."""

    module: Annotated[bool, tyro.conf.arg(aliases=["-m"])] = False
    """SCRIPT is the name of a module, as for python -m."""

    max_updates: int | None = None
    """End the script after so many attempts at an update; None: let it come to its end."""

    device: Literal["cpu"] | None = None
    """Hide all other devices from the script; None: hide none."""

    prove: bool = False
    """Run the script again for a few updates, with the right gradients: it writes its files again."""

    fail_on: Literal["error", "warning"] = "warning"
    """The least that gives exit code 1."""

    baseline: Path | None = None
    """Findings that are known and no failures, as --write-baseline wrote them."""

    write_baseline: Path | None = None
    """Write the errors and warnings of this run there, as known ones."""

    sarif: Path | None = None
    """Write the findings there as SARIF 2.1.0 too."""

    github: bool = False
    """Print workflow commands too, which GitHub shows beside the lines."""

    rules: bool = False
    """List every rule, and run nothing."""

    explain: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """Say what a rule is about, and run nothing."""

    json: bool = False
    """Print one JSON document on stdout, and what the script prints there on stderr."""

    @classmethod
    def separated(cls, words: Sequence[str]) -> list[str]:
        """The command line's words, with `--` before the script: what follows is the script's own, whatever it looks like.

        >>> Command.separated(["--json", "--max-updates", "9", "train.py", "--json"])
        ['--json', '--max-updates', '9', '--', 'train.py', '--json']
        """
        with_value = {f"--{each.name.replace('_', '-')}" for each in fields(cls) if not isinstance(each.default, bool)}
        place = 0
        while place < len(words) and words[place].startswith("-") and words[place] != "--":
            place += 2 if words[place].replace("_", "-") in with_value else 1
        script = words[place:]
        return [*words[:place], *(["--"] if script and script[0] != "--" else []), *script]

    def run(self) -> int:
        """Run the script, print what was found; 0, 1, 3 for a script that failed, 130 or 143 after Ctrl-C or SIGTERM."""
        if self.rules or self.explain is not None:
            return self._about_rules()
        self._check()
        from truestep.audit.process import audit  # noqa: PLC0415  # --help must not wait for torch

        self._say_what_went_to_the_script()
        known = None if self.baseline is None else baselines.read(self.baseline)  # before the script takes its hours
        audited = audit(
            self.command, module=self.module, max_updates=self.max_updates, device=self.device, stdout_to_stderr=self.json
        )
        if self.prove and audited.interrupted is None:
            from truestep.audit.prove import prove  # noqa: PLC0415 - --help does not wait for it

            audited = prove(audited, self.command, module=self.module, device=self.device)
        found = self._sorted(audited, known)
        code = self._code(audited, found)
        if self.sarif is not None:
            _findings.write_sarif(self.sarif, audited, found, rules=_every_rule())
        if self.json:
            _findings.print_document(audited, found, exit_code=code)
        else:
            _findings.print_text(audited, found)
        if self.github:
            _findings.print_annotations(found)
        _findings.say_how_it_ended(audited, is_explained=code != _COULD_NOT_RUN, device=self.device)
        return code

    def _check(self) -> None:
        """All that can be wrong before the script has run."""
        if not self.command:
            hint = "write truestep audit SCRIPT [ARGS...]; --rules and --explain ID need none"
            raise UsageError("there is no script to audit", hint=hint)
        if self.json and self.github:
            raise UsageError("--json and --github both want stdout", hint="take one, or --sarif FILE beside --json")
        if self.max_updates is not None and self.max_updates < 1:
            raise UsageError(f"--max-updates {self.max_updates} judges nothing", hint="write --max-updates N, from 1")
        if not self.module and not Path(self.command[0]).exists():
            hint = "name a file, or a module behind -m; options of the audit stand before it"
            raise FileError(f"there is no script {self.command[0]}", hint=hint)
        for path in (self.sarif, self.write_baseline):
            if path is not None:
                demand_writable(path)

    def _say_what_went_to_the_script(self) -> None:
        """An option of the audit behind SCRIPT is the script's own, which may not be what was meant."""
        ours = {f"--{each.name.replace('_', '-')}" for each in fields(self)}
        taken = [word for word in self.command[1:] if word.partition("=")[0] in ours]
        if taken:
            one = "option is" if len(taken) == 1 else "options are"
            print(f"{', '.join(taken)}: the {one} given to {self.command[0]}; the audit's own stand before it", file=sys.stderr)

    def _sorted(self, audited: Audited, known: Mapping[baselines.Fingerprint, int] | None) -> Sorted:
        """Remarks first, then the baseline; one that is written now is known at once."""
        found = without_ignored(seen_from(Path.cwd(), audited.findings), script=audited.script, rules=_every_rule())
        path = self.baseline
        if self.write_baseline is not None and audited.interrupted is not None:
            print(f"{self.write_baseline} is not written: it would lack what was not seen any more", file=sys.stderr)
        elif self.write_baseline is not None:
            path, known = self.write_baseline, baselines.marks(found.told, self.write_baseline.parent)
            baselines.write(path, known)
        if path is None or known is None:
            return found
        sorted_ = found.without(known, path.parent)
        idle = sum(known.values()) - len(sorted_.known)
        if idle > 0:
            print(f"{counted(idle, 'finding')} of {path} were not seen; --write-baseline renews it", file=sys.stderr)
        return sorted_

    def _code(self, audited: Audited, found: Sorted) -> int:
        """What the process ends with."""
        if audited.interrupted is not None:
            return _SIGNALLED + audited.interrupted
        if found.fails(self.fail_on):
            return _FOUND
        unheard = not audited.stories and any("the audit failed" in each["why"] for each in audited.coverage["not_judged"])
        return _COULD_NOT_RUN if audited.script_exit or unheard else 0

    def _about_rules(self) -> int:
        """Prints every rule's id and title, or all of one rule."""
        rules = _every_rule()
        if self.explain is None:
            shown = list(rules.values())
        elif self.explain in rules:
            shown = [rules[self.explain]]
        else:
            near = ", ".join(get_close_matches(self.explain, rules, n=3))
            hint = f"did you mean {near}?" if near else "truestep audit --rules lists them"
            raise UsageError(f"there is no rule {self.explain!r}", hint=hint)
        if self.json:
            print_json(rules_document(shown))
        elif self.explain is None:
            print_table("what an audit looks for", ["rule", "is that"], [(rule.id, rule.title) for rule in shown], words=2)
        else:
            print("\n".join(explained(shown[0])))
        return 0


def _every_rule() -> dict[str, Rule]:
    """By id: about what scripts do, and about the remarks in them."""
    from truestep.audit.rules import rules  # noqa: PLC0415 - --help does not wait for it

    return dict(sorted((rules() | ignores.RULES).items()))
