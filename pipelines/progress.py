"""
Progress of a run on the terminal, as a Dagster logger: it gets every event while the run goes on.
"""

import logging
from collections.abc import Callable

import dagster as dg
from dagster import DagsterEvent, DagsterEventType
from rich.console import Console
from rich.status import Status

from pipelines.metadata import ROWS

Report = Callable[[DagsterEvent | str], None]  # an event, or what a step says as it goes on


class Progress:
    """Shows the step that runs, and a line for each that ended; use it in a `with`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = Status("starting", console=console)
        self._rows: dict[str, int] = {}

    def __enter__(self) -> "Progress":
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def report(self, event: DagsterEvent | str) -> None:
        if isinstance(event, str):
            self._status.update(event)
            return
        if event.event_type is DagsterEventType.RESOURCE_INIT_STARTED:
            self._status.update("waiting for another run's end")
        if event.step_key is None:
            return
        name = event.step_key.rpartition("__")[2]  # without the group that an asset's key names
        if event.event_type is DagsterEventType.STEP_START:
            self._status.update(name)
        elif event.event_type is DagsterEventType.ASSET_MATERIALIZATION:
            rows = event.step_materialization_data.materialization.metadata.get(ROWS)
            if rows is not None and isinstance(rows.value, int):
                self._rows[name] = rows.value
        elif event.event_type is DagsterEventType.STEP_SUCCESS:
            seconds = event.step_success_data.duration_ms / 1_000
            rows_shown = f"{self._rows[name]:>12,} rows" if name in self._rows else ""
            self._console.print(f"{name:<20}{seconds:>7.2f} s{rows_shown}", highlight=False)
        elif event.event_type is DagsterEventType.STEP_UP_FOR_RETRY:
            self._console.print(f"{name:<20} failed, tried again", style="yellow")
        elif event.event_type is DagsterEventType.STEP_FAILURE:
            self._console.print(f"{name:<20} failed", style="red")


def logger(report: Report) -> dg.LoggerDefinition:
    """Return a logger that hands each event to `report` and writes nothing itself."""

    def progress(_: dg.InitLoggerContext) -> logging.Logger:
        made = logging.Logger("mnemolog.progress", logging.DEBUG)
        made.addHandler(_Handler(report))
        return made

    return dg.LoggerDefinition(progress, description="progress, in place of console output")


class _Handler(logging.Handler):
    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        meta = getattr(record, "dagster_meta", {})
        event = meta.get("dagster_event")
        if isinstance(event, DagsterEvent):
            self._report(event)
        elif record.levelno == logging.INFO and meta.get("step_key"):
            self._report(f"{meta['step_key']}: {meta['orig_message']}")
