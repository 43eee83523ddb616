"""
Setting changes: the steps of a plan that change how recall works, and their edits to config.toml.

One kind is no setting: accepting a new version of mnemolog, which takes effect at the next build.

A step keeps the file's value at the time of the proposal. It is applied only while the file still
has that value, and undone only while it has the step's value: a person's later edits stay.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from store.home import config
from store.home.config import PLANNED, Choices, Settings
from store.home.errors import ConfigError, Conflict, InvalidInput
from store.log.event_kinds import Planned, Step
from store.log.event_log import EventLog

VERSION = "version"  # the name of the step that is no setting


def configure_steps(settings: Settings, changes: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps that set settings, named and written as `--set` takes them, without those
    that change nothing.

    Raise ConfigError for an unknown setting or invalid value, for one that changes no answer, and
    for one that the environment or a project's file sets: config.toml could not change it.
    """
    after = config.change_choices(settings.choices, changes)
    steps = []
    for name in changes:
        table = name.partition(".")[0]
        _check_planned(name, str(settings.user_file))
        if (origin := settings.origin.get(table, "")) not in ("", str(settings.user_file)):
            where = f"MNEMOLOG_{table.upper()}" if origin == "environment" else origin
            raise ConfigError(f"{where} sets {table}, over what a plan could set: take it out")
        before, value = (config.setting(choices, name) for choices in (settings.choices, after))
        if before != value:
            in_file = config.kept_value(settings.home, name)
            steps.append(_step(name, before, value, in_file))
    return tuple(steps)


def version_step(before: str, after: str) -> Step:
    """Return the step that accepts one mnemolog version's answers in place of another's."""
    value = {"name": VERSION, "value": after}
    return Step(
        event="configured",
        subject=f"setting:{VERSION}",
        body=value,
        why=f"mnemolog from {before} to {after}",
        before={"value": before},
    )


def planned_version(planned: Planned) -> tuple[str, str] | None:
    """Return the version before and the one that a plan accepts; None for any other plan."""
    for step in planned.steps:
        if _is_version(step):
            return step.before["value"], step.body["value"]
    return None


def needs_build(steps: Iterable[Step]) -> bool:
    """Return True if some steps' settings take effect only after a build."""
    built = "embedder", VERSION
    return any(step.event == "configured" and step.body["name"] in built for step in steps)


def _is_version(step: Step) -> bool:
    return step.event == "configured" and step.body["name"] == VERSION


def _check_planned(name: str, file: str) -> None:
    """Raise ConfigError for a setting that no plan may change."""
    if name.partition(".")[0] not in PLANNED:
        raise ConfigError(
            f"{name} changes no answer that recall gave: set it in {file}. "
            f"A plan may change {', '.join(PLANNED)}"
        )


def _step(name: str, before: Any, value: Any, in_file: Any) -> Step:
    return Step(
        event="configured",
        subject=f"setting:{name}",
        body={"name": name, "value": value},
        why=f"{name} from {before} to {value}",
        before={"value": before, "kept": in_file},
    )


def kept_settings(log: EventLog) -> dict[str, Any]:
    """Return the recall settings in config.toml, except the embedder: its switch is judged.

    Tables are flattened: `profiles.wal.recency`.
    """
    settings: dict[str, Any] = {}
    for name in PLANNED:
        if name != "embedder" and (value := config.kept_value(_home(log), name)) is not None:
            settings |= _flatten(name, value)
    return settings


def _flatten(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    settings: dict[str, Any] = {}
    for key, inner in value.items():
        settings |= _flatten(f"{name}.{key}", inner)
    return settings


def steps_back(kept: Mapping[str, Any], before: Mapping[str, Any]) -> list[Step]:
    """Return the steps that restore the earlier values of config.toml; settings it did not have
    return to the default.
    """
    steps = []
    for name in sorted({*kept, *before}):
        usual = config.setting(Choices(), name)
        now, then = kept.get(name, usual), before.get(name, usual)
        if now != then:
            steps.append(_step(name, now, then, kept.get(name)))
    return steps


def changed_choices(choices: Choices, steps: Iterable[Step]) -> Choices:
    """Return settings with the changes of some steps."""
    changes = {str(step.body["name"]): str(step.body["value"]) for step in _setting_steps(steps)}
    return config.change_choices(choices, changes)


def start_trial(log: EventLog, planned: Planned, plan: str, until: datetime) -> None:
    """Have recall try a plan's settings alongside the current ones, until a moment.

    Raise InvalidInput for a plan that changes more than how memories are ranked, Conflict if
    another plan is being tried, and ConfigError if config.toml cannot be written.
    """
    names = [str(step.body["name"]) for step in _setting_steps(planned.steps)]
    if len(names) < len(planned.steps) or "embedder" in names or not names:
        raise InvalidInput(
            f"plan {plan} cannot be tried: only one of "
            f"{', '.join(name for name in PLANNED if name != 'embedder')} can"
        )
    if (other := config.kept_value(_home(log), "trial.plan")) not in (None, plan):
        raise Conflict(f"plan {other} is being tried: `mnemolog plans trial {other} --stop` first")
    changes = [
        f"{step.body['name']}={step.body['value']}" for step in _setting_steps(planned.steps)
    ]
    config.keep(_home(log), {"trial.plan": plan, "trial.until": until, "trial.set": changes})


def trial_end(log: EventLog, plan: str) -> datetime | None:
    """Return the end of a plan's trial; None if it is not being tried."""
    if config.kept_value(_home(log), "trial.plan") != plan:
        return None
    end = config.kept_value(_home(log), "trial.until")
    return end if isinstance(end, datetime) else None


def end_trial(log: EventLog, plan: str) -> bool:
    """End the trial of a plan; return True if there was one."""
    if config.kept_value(_home(log), "trial.plan") != plan:
        return False
    config.keep(_home(log), dict.fromkeys(("trial.plan", "trial.until", "trial.set")))
    return True


def stale_settings(log: EventLog, planned: Planned, *, is_undo: bool = False) -> tuple[str, ...]:
    """Return the settings of a plan that changed in config.toml since it was made, or applied."""
    reasons = []
    for step in _setting_steps(planned.steps):
        name = step.body["name"]
        wanted = step.body["value"] if is_undo else step.before["kept"]
        if (now := config.kept_value(_home(log), name)) != wanted:
            text = "no longer set" if now is None else f"set to {now}"
            reasons.append(f"{name} was {text} in config.toml since")
    return tuple(reasons)


def planned_embedder(steps: Iterable[Step], *, is_undo: bool = False) -> str | None:
    """Return the embedder that some steps set, or with `is_undo` replaced; None if they set
    none.
    """
    for step in _setting_steps(steps):
        if step.body["name"] == "embedder":
            return str(step.before["value"] if is_undo else step.body["value"])
    return None


def keep_settings(log: EventLog, planned: Planned, *, is_undo: bool = False) -> None:
    """Write a plan's settings into config.toml, or with `is_undo` the earlier values.

    Raise ConfigError if the file cannot be written, and for a setting that no plan may change.
    """
    for step in _setting_steps(planned.steps):
        _check_planned(step.body["name"], "config.toml")
    if values := {
        str(other.body["name"]): other.before["kept"] if is_undo else other.body["value"]
        for other in _setting_steps(planned.steps)
    }:
        config.keep(_home(log), values)


def _setting_steps(steps: Iterable[Step]) -> list[Step]:
    """Return the steps stored in config.toml."""
    return [step for step in steps if step.event == "configured" and not _is_version(step)]


def _home(log: EventLog) -> Path:
    """Return the home of a tenant's log, `<home>/tenants/<name>/log.sqlite`."""
    return log.path.parents[2]
