"""
The group all commands belong to, and the one place where an error becomes a message and an exit
code.

    0 done, also where nothing was found    3 no such memory or tenant
    1 a check failed or refused             4 the log could not do it (busy, full, damaged ...)
    2 what was typed or sent is wrong       75 another build is running (EX_TEMPFAIL, sysexits.h)

Ctrl-C ends with 130 and a reader that went away with 141, as the shell reports them; neither says
anything.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import click
import msgspec

from store.home import files
from store.home.errors import (
    BuildBusy,
    ConfigError,
    InvalidInput,
    LogError,
    MnemologError,
    NotFound,
    SourceError,
)

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


class Commands(click.Group):
    """click's group, ended by our exit codes; click offers no other seam than `main`.

    `places` maps each command to "module.name" in `serve.cli`, where the name is the command or a
    table of commands by their names; only the module asked for is imported.
    """

    def __init__(self, *, places: Mapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        module, _, name = self._places[cmd_name].partition(".")
        found = getattr(import_module(f"serve.cli.{module}"), name)
        command: click.Command = found[cmd_name] if isinstance(found, Mapping) else found
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        given = list(sys.argv[1:] if args is None else args)
        mask = os.umask(0o077)  # whatever is written, here or by a build, is its owner's alone
        try:
            code = super().main(given, "mnemolog", complete_var, standalone_mode=False, **extra)
        except click.Abort:
            code = INTERRUPTED
        except click.ClickException as error:
            error.show()
            _tell_programs(given, "usage", error.format_message())
            code = error.exit_code
        except msgspec.MsgspecError as error:
            code = _fail(given, InvalidInput(str(error)))
        except MnemologError as error:
            code = _fail(given, error)
        except OSError as error:
            if (known := files.disk_error(error)) is None:
                raise
            code = _fail(given, known)
        finally:
            os.umask(mask)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # what is still buffered has no reader: let the exit's flush succeed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_CLOSED


def _fail(given: list[str], error: MnemologError) -> int:
    click.echo(f"mnemolog: {error}", err=True)
    name = type(error).__name__
    _tell_programs(given, re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), str(error))
    return next(code for kind, code in _CODES if isinstance(error, kind))


def _tell_programs(given: list[str], code: str, message: str) -> None:
    """Print the error as HTTP would send it, where JSON was asked for."""
    options = given[: given.index("--")] if "--" in given else given
    if "--json" in options:
        body = {"error": {"code": code, "message": message}}
        click.echo(msgspec.json.encode(body))
