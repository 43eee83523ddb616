"""
The group of all commands, and the one place where an error becomes a message and an exit code.

    0 done, even if nothing was found       3 no such memory or tenant
    1 a check failed or refused             4 the log could not do it (busy, full, damaged ...)
    2 the command or its input is wrong     75 another build is running (EX_TEMPFAIL, sysexits.h)

Ctrl-C exits with 130 and a closed pipe with 141, as the shell reports them; neither prints a
message.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import click
import msgspec
from click.shell_completion import CompletionItem

from store.home import files
from store.home.errors import (
    BuildBusy,
    ConfigError,
    InvalidInput,
    LogError,
    MnemologError,
    NotFound,
    SourceError,
    closest,
)

_LONGEST = 60  # characters of a command's first sentence: a line of help
FAILED, USAGE, NOT_FOUND, LOG_FAILED, BUSY = 1, 2, 3, 4, 75
INTERRUPTED, PIPE_CLOSED = 130, 141

_CODES: tuple[tuple[type[Exception], int], ...] = (
    (InvalidInput, USAGE),
    (SourceError, USAGE),
    (ConfigError, USAGE),
    (NotFound, NOT_FOUND),
    (LogError, LOG_FAILED),
    (BuildBusy, BUSY),
    (MnemologError, FAILED),
)


# sections of a help page: each command by its name; or "module.name" in `serve.cli`, the name being
# that of the command or of a table of commands by name, with the first sentence of its help
Sections = Mapping[str, Mapping[str, tuple[str, str] | click.Command]]

# verbs that people know from other programs
_SYNONYMS = {
    **dict.fromkeys(("add", "remember", "save", "note"), "record"),
    **dict.fromkeys(("search", "find", "query", "ask"), "recall"),
    **dict.fromkeys(("delete", "remove", "rm"), "forget"),
    **dict.fromkeys(("ls", "memories"), "list"),
    **dict.fromkeys(("get", "view"), "show"),
    **dict.fromkeys(("install", "setup"), "connect"),
    **dict.fromkeys(("explain",), "why"),
    **dict.fromkeys(("log", "logs", "recent"), "timeline"),
    **dict.fromkeys(("undo", "revert"), "plans undo"),
}


class Commands(click.Group):
    """click's group, in sections, with our exit codes; click offers no other hook than `main`.

    Only the module of the given command is imported, and none to list them. `unlisted` commands
    work, and are completed and suggested like the others, but this group's help omits them.
    """

    def __init__(
        self, *, sections: Sections, unlisted: Sequence[Sections] = (), **options: Any
    ) -> None:
        super().__init__(**options)
        self.sections = sections
        self._places = {
            name: place
            for some in (*unlisted, sections)
            for section in some.values()
            for name, place in section.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in self.sections.values() for name in section]

    @property
    def names(self) -> frozenset[str]:
        """The names of all commands, listed or not."""
        return frozenset(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._places.get(cmd_name)
        if place is None or isinstance(place, click.Command):
            return place
        module, _, name = place[0].partition(".")
        value = getattr(import_module(f"serve.cli.{module}"), name)
        command: click.Command = value[cmd_name] if isinstance(value, Mapping) else value
        return command

    def summary(self, name: str) -> str:
        """Return the first sentence of a command's help; raise KeyError for an unknown name."""
        place = self._places[name]
        return place.get_short_help_str(_LONGEST) if isinstance(place, click.Command) else place[1]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if self.get_command(ctx, args[0]) is not None:
                raise
            synonyms = {
                text: name for text, name in _SYNONYMS.items() if name.split()[0] in self._places
            }
            names = synonyms | {name: name for name in self._places}
            hint = "".join(f" Did you mean {names[text]!r}?" for text in closest(args[0], names))
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, then the options: few lines, so that they fit a screen."""
        width = max(map(len, self.list_commands(ctx)))
        formatter.write_paragraph()
        for title, section in self.sections.items():
            formatter.write_heading(click.style(title, bold=True))
            with formatter.indentation():
                for name in section:
                    formatter.write_text(f"{name.ljust(width)}  {self.summary(name)}")
        click.Command.format_options(self, ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands with a prefix: the listed ones, or all once a letter is typed."""
        names = sorted(self._places) if incomplete else self.list_commands(ctx)
        commands = [
            CompletionItem(name, help=self.summary(name))
            for name in names
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        words = list(sys.argv[1:] if args is None else args)
        if words[:1] == ["help"]:
            words = [*words[1:], "--help"]
        mask = os.umask(0o077)  # files written here or by a build are their owner's alone
        try:
            code = super().main(words, "mnemolog", complete_var, standalone_mode=False, **extra)
        except click.Abort:
            code = INTERRUPTED
        except click.ClickException as error:
            error.show()
            _tell_programs(words, "usage", error.format_message())
            code = error.exit_code
        except msgspec.MsgspecError as error:
            code = _fail(words, InvalidInput(_name_option(words, str(error))))
        except MnemologError as error:
            code = _fail(words, error)
        except OSError as error:
            if (disk_error := files.disk_error(error)) is None:
                raise
            code = _fail(words, disk_error)
        finally:
            os.umask(mask)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # buffered output has no reader: let the exit's flush succeed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_CLOSED


def _name_option(words: Sequence[str], text: str) -> str:
    """Return msgspec's message with the option as typed instead of the field's path."""
    fault, _, path = text.rpartition(" - at `$.")
    name = re.match(r"\w+", path)
    option = f"--{name[0].removesuffix('s').replace('_', '-')}" if name else ""
    if option not in words[:-1]:
        return text
    value = words[words.index(option) + 1]
    is_key = option == "--key" and "regex" in fault
    return f"{option} {value!r}: {'write a dotted name like deploy.region' if is_key else fault}"


def _fail(words: list[str], error: MnemologError) -> int:
    click.echo(f"mnemolog: {error}", err=True)
    name = type(error).__name__
    _tell_programs(words, re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), str(error))
    return next(code for kind, code in _CODES if isinstance(error, kind))


def _tell_programs(words: list[str], code: str, message: str) -> None:
    """Print the error in the form of the HTTP API, if JSON was requested."""
    options = words[: words.index("--")] if "--" in words else words
    if "--json" in options:
        body = {"error": {"code": code, "message": message}}
        click.echo(msgspec.json.encode(body))
