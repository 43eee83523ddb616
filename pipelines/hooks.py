"""
Hooks of every job: what failed while nobody looked on is kept where `mnemolog doctor` shows it, and
dropped as soon as the same goes right.

A refused build is not kept here: why is kept beside the last good manifest already.
"""

import time
from pathlib import Path

import dagster as dg
from dagster._core.errors import DagsterAssetCheckFailedError

from pipelines.resources import PARTITION
from store import failures
from store.config import Settings
from store.errors import BuildRefused
from store.tenant import tenant


@dg.failure_hook(required_resource_keys={"settings"})
def keep_failure(context: dg.HookContext) -> None:
    """Keep why a step failed, by its name."""
    error = context.op_exception
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, BuildRefused | DagsterAssetCheckFailedError):
        return
    said = f"{type(error).__name__}: {error}" if error else "it did not say why"
    failures.keep(_root(context), _name(context), time.time_ns() // 1_000, said, context.run_id)


@dg.success_hook(required_resource_keys={"settings"})
def forget_failure(context: dg.HookContext) -> None:
    """Drop what was kept of a step, and of its job where that was killed."""
    root = _root(context)
    failures.forget(root, _name(context))
    failures.forget(root, context.job_name)


HOOKS = frozenset({keep_failure, forget_failure})


def _name(context: dg.HookContext) -> str:
    return context.op.name.replace("__", ".")


def _root(context: dg.HookContext) -> Path:
    """Return the folder of the tenant that the run is about, or the home's."""
    settings: Settings = context.resources.settings
    run = context.instance.get_run_by_id(context.run_id)
    name = run.tags.get(PARTITION) if run else None
    return tenant(settings.home, name).root if name else settings.home
