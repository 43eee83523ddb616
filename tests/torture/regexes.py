"""
regexes: every regular expression of our packages, and the methods it is used by.

Found twice, so that none is missed: as values in the modules (also within tuples, dictionaries,
dataclasses and structs), and as calls of `re` in the source.
"""

import ast
import dataclasses
import importlib
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"store": "store", "serve": "serve", "pipelines": "pipelines"}
CLIENT = ROOT / "serve" / "program"  # `mnemolog`, imported by that name
_CALLS = ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
_PROGRAMS = ("__main__",)  # they run when they are imported


@dataclass(frozen=True, slots=True)
class Regex:
    """A compiled pattern, its module and its name there."""

    module: str
    name: str
    pattern: re.Pattern[str]

    @property
    def where(self) -> str:
        return f"{self.module}.{self.name}"


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the modules of our packages by name, with their files."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if CLIENT in path.parents:
                base = CLIENT
            else:
                base = ROOT
            words = path.relative_to(base).with_suffix("").parts
            if words[-1] in _PROGRAMS:
                continue
            yield ".".join(words[:-1] if words[-1] == "__init__" else words), path


def found() -> tuple[list[Regex], list[str]]:
    """Return the patterns of each module, and the calls of `re` with an unknown pattern."""
    every: dict[tuple[str, str | bytes], Regex] = {}
    untold: list[str] = []
    for name, path in modules():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            if CLIENT not in path.parents:
                raise
            continue  # an adapter, whose library is not installed
        for regex in _values(module, name):
            every.setdefault((name, regex.pattern.pattern), regex)
        for line, pattern in _calls(ast.parse(path.read_text()), module):
            if pattern is None:
                untold.append(f"{name}:{line}")
            else:
                every.setdefault((name, pattern.pattern), Regex(name, f"line {line}", pattern))
    return list(every.values()), untold


def _values(module: ModuleType, name: str) -> Iterator[Regex]:
    for word, value in vars(module).items():
        for number, pattern in enumerate(_within(value, 4)):
            yield Regex(name, f"{word}[{number}]" if number else word, pattern)


def _within(value: Any, depth: int) -> Iterator[re.Pattern[str]]:
    """Yield the patterns in a value, also nested."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth == 0 or isinstance(value, str | bytes | type | ModuleType):
        return
    elif dataclasses.is_dataclass(value):
        of_type = vars(type(value))
        cached = [name for name in of_type if isinstance(of_type[name], cached_property)]
        for name in (*cached, *(field.name for field in dataclasses.fields(value))):
            yield from _within(getattr(value, name, None), depth - 1)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _within(getattr(value, field), depth - 1)
    elif type(value) is dict:
        for item in (*value.keys(), *value.values()):
            yield from _within(item, depth - 1)
    elif type(value) in (tuple, list, set, frozenset):  # a record of Dagster's is no tuple
        for item in value:
            yield from _within(item, depth - 1)


def _calls(tree: ast.Module, module: ModuleType) -> Iterator[tuple[int, re.Pattern[str] | None]]:
    """Yield the calls of `re` by line, with their pattern if the source alone determines it."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and _is_of_re(node.func) and node.args):
            continue
        try:
            written = ast.Expression(node.args[0])
            text = eval(compile(written, module.__name__, "eval"), dict(vars(module)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield node.lineno, re.compile(text)
        except (NameError, re.error, TypeError):
            yield node.lineno, None


def _is_of_re(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Name)
        and called.value.id == "re"
        and called.attr in _CALLS
    )


def uses(paths: Iterable[tuple[str, Path]]) -> dict[tuple[str, str], set[str]]:
    """
    Return the `re` methods called on each name, by module and the last part of the name.

    Two modules may give one name to different patterns. A pattern that its own module does not call
    is called by importing modules: the module "" has the calls of all.
    """
    methods: dict[tuple[str, str], set[str]] = {}
    for module, path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in _CALLS[1:]:
                on = node.value
                word = on.id if isinstance(on, ast.Name) else getattr(on, "attr", "")
                methods.setdefault((module, word), set()).add(node.attr)
                methods.setdefault(("", word), set()).add(node.attr)
    return methods
