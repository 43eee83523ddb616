"""
Types of arguments: their completions for Tab, and the errors for invalid words.

Completion runs at every Tab: it reads the log, imports nothing slow, prints nothing and never
fails.
"""

import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from serve.cli import environment, output
from serve.cli.environment import Environment
from store.home import config
from store.home.errors import InvalidInput, MnemologError, closest, did_you_mean
from store.home.projects import check_project
from store.log.event_kinds import (
    MEMORY_KINDS,
    RECORDED_KINDS,
    Planned,
    Proposed,
    Recalled,
    Recorded,
)

if TYPE_CHECKING:
    from store.log.events import Event

MOST_ITEMS = 40  # completions of one Tab
MOST_ASKED = 1_000  # past recalls that judge a change, unless more are requested
_FAR = 8  # letters of an id, from which on all events are searched, not only the newest
_HELP_WIDTH = 60

# from the environment and the letters typed to values and their descriptions
Find = Callable[[Environment, str], Iterable[tuple[str, str]]]


class Choice(click.Choice[str]):
    """One of a few words; the error for a mistyped word suggests the nearest one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            words = list(map(str, self.choices))
            hint = did_you_mean(str(value), words)
            self.fail(f"{value!r} is unknown.{hint} Choose from {', '.join(words)}.", param, ctx)


KIND = Choice(MEMORY_KINDS)
RECORDED_KIND = Choice(RECORDED_KINDS)


def parse_settings(changes: Iterable[str], profile: str | None) -> dict[str, str]:
    """Return the values of `--set` and `--profile`, by name; raise UsageError unless each change is
    KEY=VALUE.

    A note names the settings that no longer have an effect.
    """
    values: dict[str, str] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals:
            raise click.UsageError(f"--set {change}: write KEY=VALUE, as in fusion=rrf")
        values[name] = value
        if name in config.REMOVED:
            output.note(f"note: --set {name} has no effect: {config.REMOVED[name]}")
    return values | ({"profile": profile} if profile else {})


class Named(click.ParamType[str]):
    """A name or id, taken as typed, that Tab completes."""

    def __init__(self, name: str, find: Find) -> None:
        self.name = name
        self._find = find

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        options = ctx.find_root().params
        env = Environment(options.get("home"), options.get("tenant"))
        with suppress(MnemologError, OSError):
            items = islice(self._find(env, incomplete), MOST_ITEMS)
            return [CompletionItem(value, help=text) for value, text in items]
        return []


class ProjectName(Named):
    """A project's name. Its end is enough: `httpx` for github.com/encode/httpx."""

    def __init__(self, *, may_be_new: bool = False) -> None:
        super().__init__("project", _projects)
        self._may_be_new = may_be_new

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = check_project(output.encodable(value))
        env = ctx.find_object(Environment) if ctx is not None else None
        if ctx is None or env is None or ctx.resilient_parsing:
            return name
        projects: list[str] = []
        with suppress(MnemologError, OSError):  # the command itself reports the error
            projects = known_projects(env)
        if not projects or name in projects:
            return name
        ends = [project for project in projects if _is_end(name, project)]
        if len(ends) == 1:
            output.note(f"note: the project is {output.clean(ends[0])}")
            return ends[0]
        if ends and sys.stdin.isatty() and sys.stderr.isatty():
            return str(click.prompt("Which project?", type=Choice(ends), err=True))
        if ends and not self._may_be_new:
            raise InvalidInput(f"the project {name!r} could be {', '.join(ends)}: give more of it")
        if not self._may_be_new:
            hint = did_you_mean(name, projects) or _did_you_mean_end(name, projects)
            output.note(f"note: no memory is of the project {name!r}.{hint}")
        return name


def known_projects(env: Environment) -> list[str]:
    """Return the projects of all memories, last used first; raise NotFound, LogError."""
    from store.log.log_queries import projects

    with environment.open_log(env.settings_and_fault()[0]) as log:
        return projects(log)


def _is_end(name: str, project: str) -> bool:
    """Return True if `name` is the last parts of a project's name, or a local project's folder."""
    folded, whole = name.casefold(), project.casefold()
    return whole.endswith(f"/{folded}") or whole.partition("@")[0] == folded


def _did_you_mean_end(name: str, projects: Iterable[str]) -> str:
    by_end = {project.rpartition("/")[2].partition("@")[0]: project for project in projects}
    return "".join(f" Did you mean {by_end[end]!r}?" for end in closest(name, by_end))


# The completions


def _projects(env: Environment, typed: str) -> Iterable[tuple[str, str]]:
    parts = re.compile(rf"(?:^|/){re.escape(typed)}", re.IGNORECASE)
    return ((project, "") for project in known_projects(env) if parts.search(project))


def _tenants(env: Environment, typed: str) -> Iterable[tuple[str, str]]:
    from store.home.tenant import list_tenants

    tenants = list_tenants(env.settings_and_fault()[0].home)
    return ((tenant.name, "") for tenant in tenants if tenant.name.startswith(typed))


def _hosts(env: Environment, typed: str) -> Iterable[tuple[str, str]]:
    from serve.hosts import HOSTS

    return ((host.name, host.title) for host in HOSTS.values() if host.name.startswith(typed))


def _jobs(env: Environment, typed: str) -> Iterable[tuple[str, str]]:
    from store.plans.job_catalog import ORDER

    return ((job, "") for job in ORDER if job.startswith(typed))


def _lessons(env: Environment, typed: str) -> Iterable[tuple[str, str]]:
    from store.plans import proposals

    with environment.open_log(env.settings_and_fault()[0]) as log:
        waiting = proposals.every(log, "waiting", "lesson")
    return (
        (proposal.id, output.one_line(proposal.title, _HELP_WIDTH))
        for proposal in waiting
        if proposal.id.startswith(typed.upper())
    )


def _events(*kinds: str) -> Find:
    """Return a finder of events of some kinds: the newest, or all once enough letters are typed."""

    def find(env: Environment, typed: str) -> Iterable[tuple[str, str]]:
        from store.log.log_queries import newest_events

        with environment.open_log(env.settings_and_fault()[0]) as log:
            if len(typed) < _FAR:
                events = newest_events(log, kinds, typed.upper(), MOST_ITEMS)
            else:
                ids = log.ids_with_prefix(typed.upper(), MOST_ITEMS, kinds)
                events = [log.events_for(id_)[0] for id_ in ids]
            yield from ((event.id, _summary(event)) for event in events)

    return find


def _summary(event: "Event") -> str:
    match event.body:
        case Recorded():
            text = event.body.content
        case Planned():
            text = f"{event.body.job}, {len(event.body.steps)} steps"
        case Proposed():
            text = f"{event.body.what}: {event.body.because or ''}"
        case Recalled():
            text = f"recall: {event.body.query}"
        case _:
            text = event.kind
    return output.one_line(text, _HELP_WIDTH)


PROJECT = ProjectName()  # of a question
NEW_PROJECT = ProjectName(may_be_new=True)  # of a new memory
TENANT = Named("tenant", _tenants)
HOST = Named("host", _hosts)
JOB = Named("job", _jobs)
MEMORY = Named("id", _events("recorded"))
RECALL = Named("id", _events("recalled"))
RATED = Named("id", _events("recalled", "recorded"))
PLAN = Named("plan", _events("planned"))
PROPOSAL = Named("id", _events("proposed"))
LESSON = Named("id", _lessons)

# Options of several commands

project_option = click.option(
    "--project", type=PROJECT, help="The project; default: that of the working directory."
)
only_project_option = click.option(
    "--project", type=PROJECT, help="Only this project's and those without one; default: all."
)
all_projects_option = click.option("--all-projects", is_flag=True, help="All projects.")
kinds_option = click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=KIND,
    metavar="KIND",
    help="Only this kind; may be repeated.",
)
tags_option = click.option(
    "--tag", "tags", multiple=True, help="Only with this tag; may be repeated."
)
since_option = click.option("--since", help="Not older than this: 2026-11-20, or 7d.")
until_option = click.option("--until", help="Older than this: 2026-11-20, or 7d.")
as_of_option = click.option("--as-of", help="As of then: 2026-11-20, 7d, or @1234 of the log.")
known_at_option = click.option(
    "--known-at",
    metavar="WHEN",
    help="As known then: 2026-11-20, 7d, @1234 of the log, or a commit.",
)
mode_option = click.option(
    "--mode",
    type=Choice(["auto", "lexical", "vector", "entity"]),
    default="auto",
    show_default=True,
    help="Which channels search.",
)
reason_option = click.option("--reason", help="The reason, kept in the log.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
