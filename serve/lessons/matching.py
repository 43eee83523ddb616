"""
Matching of rules with an agent's actions: the rules that name an action, and their verdicts.

A rule names a command that it forbids, or on whose occasion it wants something that was not done
yet. A wanted command never breaks its rule: `uv pip install` is no `pip` where uv is to be used.

The last action that bears on a lesson decides whether it was followed. A lesson shown before a tool
comes too late for that very call, which is therefore ignored. A lesson that names no command and no
file gets no verdict.
"""

from collections.abc import Iterable, Sequence

import msgspec

from serve.lessons.patterns import is_matched
from serve.lessons.rule_parser import Wording, parse_wording
from store.agents.efforts import efforts
from store.agents.shell import Call, calls, program
from store.log.event_kinds import Acted, Effort, LessonVerdict, Outcome, Surfaced
from store.memories.memory import Memory

MAX_ABOUT = 200  # characters of the command or file that a rule named


class RuleMatch(msgspec.Struct, frozen=True):
    """A rule, and the command or file by which it was named.

    `is_forbidden`: the rule forbids it; else the rule wants something on its occasion.
    """

    memory: Memory
    about: str
    is_forbidden: bool


def forbids(rule: Wording, call: Call) -> bool:
    """Return True if a rule forbids a call."""
    is_wanted = any(command.is_called_by(call) for command in rule.wanted)
    return not is_wanted and any(command.is_called_by(call) for command in rule.forbidden)


def wants(rule: Wording, call: Call) -> bool:
    """Return True if a rule wants a call."""
    if any(command.is_called_by(call) for command in rule.wanted):
        return True
    return not efforts(call).isdisjoint(rule.efforts)


def is_occasion(rule: Wording, call: Call) -> bool:
    """Return True if a call is an occasion of a rule; a wanted call never is."""
    if wants(rule, call) or any(
        command.without_flags.is_called_by(call) for command in rule.wanted
    ):
        return False
    return any(occasion.is_met_by(call) for occasion in rule.occasions)


def is_untouchable(rule: Wording, path: str) -> bool:
    return any(is_matched(glob, path) for glob in rule.untouched)


class Rules:
    """Rules by the commands and files they name. Immutable: threads may share it."""

    def __init__(self, memories: Iterable[Memory]) -> None:
        self._programs: dict[str, list[tuple[Memory, Wording]]] = {}
        self._efforts: dict[str, list[tuple[Memory, Wording]]] = {}
        self._others: list[tuple[Memory, Wording]] = []  # rules that may match any command
        self._files: list[tuple[Memory, Wording]] = []
        for memory in memories:
            rule = parse_wording(memory.content)
            commands = [
                *rule.forbidden,
                *(occasion.command for occasion in rule.occasions if occasion.command),
            ]
            for name in dict.fromkeys(
                program(command.words[0]) if command.words else "" for command in commands
            ):
                by_name = self._programs.setdefault(name, []) if name else self._others
                by_name.append((memory, rule))
            for effort in dict.fromkeys(
                occasion.effort for occasion in rule.occasions if occasion.effort
            ):
                self._efforts.setdefault(effort, []).append((memory, rule))
            if any(occasion.stem for occasion in rule.occasions):
                self._others.append((memory, rule))
            if rule.untouched or rule.files:
                self._files.append((memory, rule))

    def of_command(self, line: str, before: Sequence[str] = ()) -> list[RuleMatch]:
        """Return the rules that a command line names; `before` are lines that ran already: a rule
        whose wanted command already ran is left out.
        """
        matches: dict[str, RuleMatch] = {}
        ran = [call for earlier in before for call in calls(earlier)]
        for call in calls(line):
            ran.append(call)  # "ruff check && git commit": the wanted call comes before it
            for memory, rule in self._may_name(call):
                if memory.id in matches:
                    continue
                if forbids(rule, call):
                    matches[memory.id] = RuleMatch(memory, about(call), True)
                elif is_occasion(rule, call) and not any(wants(rule, other) for other in ran):
                    matches[memory.id] = RuleMatch(memory, about(call), False)
        return list(matches.values())

    def of_file(self, path: str) -> list[RuleMatch]:
        """Return the rules about editing a file; its path has forward slashes."""
        matches = []
        for memory, rule in self._files:
            if is_untouchable(rule, path):
                matches.append(RuleMatch(memory, path[:MAX_ABOUT], True))
            elif any(is_matched(glob, path) for glob in rule.files):
                matches.append(RuleMatch(memory, path[:MAX_ABOUT], False))
        return matches

    def of_words(self, words: Sequence[str], wanted: frozenset[str]) -> list[RuleMatch]:
        """Return the rules about programs or files that words name, or about `wanted` efforts."""
        matches: dict[str, RuleMatch] = {}
        for word in words:
            for memory, rule in self._programs.get(word, ()):
                is_forbidden = any(command.words[:1] == (word,) for command in rule.forbidden)
                matches.setdefault(memory.id, RuleMatch(memory, word, is_forbidden))
            if "/" in word or "." in word:
                matches |= {match.memory.id: match for match in self.of_file(word)}
        for effort in wanted:
            for memory, _ in self._efforts.get(effort, ()):
                matches.setdefault(memory.id, RuleMatch(memory, effort, False))
        return list(matches.values())

    def _may_name(self, call: Call) -> Iterable[tuple[Memory, Wording]]:
        """Yield the rules that may name a call; some of them twice."""
        for form in call.forms:
            yield from self._programs.get(program(form[0]), ())
        for effort in efforts(call):
            yield from self._efforts.get(effort, ())
        yield from self._others


def about(call: Call) -> str:
    """Return the text of a call, cut."""
    return " ".join(call.forms[0])[:MAX_ABOUT]


Judged = tuple[LessonVerdict, str | None]


def judge_lesson(
    rule: Wording, surfaced: Surfaced, before: Sequence[Acted], after: Sequence[Acted]
) -> Judged | None:
    """Return the verdict and its command or file; None where there is no verdict.

    `before` and `after` are the acts of the turn until the lesson was shown, and since.
    """
    if not (rule.names_anything or rule.wanted):
        return None
    deeds = _without_its_call(surfaced, after) if surfaced.place == "tool" else list(after)
    verdict: Judged = ("not_applicable", None)
    if surfaced.about and is_untouchable(rule, surfaced.about) and len(deeds) == len(after):
        verdict = ("followed", surfaced.about)  # the planned edit was not made
    ran = [call for act in before for call in _calls(act)]
    for deed in deeds:
        for call in _calls(deed):
            verdict = _judge_call(rule, call, ran) or verdict
            ran.append(call)
        if deed.doing == "edit" and deed.passed is not False:
            touched = [path for path in deed.files if is_untouchable(rule, path)]
            verdict = ("ignored", touched[0][:MAX_ABOUT]) if touched else verdict
    return verdict


def _judge_call(rule: Wording, call: Call, ran: Sequence[Call]) -> Judged | None:
    if forbids(rule, call):
        return "ignored", about(call)
    if wants(rule, call):
        return "followed", about(call)
    if is_occasion(rule, call) and (rule.wanted or rule.efforts):
        is_done = any(wants(rule, other) for other in ran)
        return "followed" if is_done else "ignored", about(call)
    return None


def _without_its_call(surfaced: Surfaced, after: Sequence[Acted]) -> list[Acted]:
    """Return the acts but for the call that the lesson was shown before."""
    for place, deed in enumerate(after):
        files = [path[:MAX_ABOUT] for path in deed.files]
        if surfaced.about in {*map(about, _calls(deed)), *files}:
            return [*after[:place], *after[place + 1 :]]
    return list(after)


def _calls(deed: Acted) -> Sequence[Call]:
    return calls(deed.command) if deed.command else ()


_TRIED: tuple[Effort, ...] = ("test", "build", "lint", "deploy")


def outcomes(turn: Sequence[Acted], earlier: Sequence[Acted]) -> list[Outcome]:
    """Return the last result of each effort of a turn; `earlier` are the acts before it.

    An effort's former result is the last one of an earlier turn, else the turn's first try.
    """
    results = []
    for effort in _TRIED:
        tries = _tries(turn, effort)
        if tries:
            past = _tries(reversed(earlier), effort)
            before = past[0] if past else tries[0] if len(tries) > 1 else None
            results.append(Outcome(effort=effort, passed=tries[-1], before=before))
    return results


def _tries(acted: Iterable[Acted], effort: Effort) -> list[bool]:
    return [act.passed for act in acted if act.effort == effort and act.passed is not None]
