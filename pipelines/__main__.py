"""
The jobs' command line: `python -P -m pipelines build` and `... ui`, which `mnemolog` runs.

Exit codes: 0 built; 1 refused or failed, and what is served stays; 75 another build is running.
"""

import json
import os
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from store.home import config, failures, files, tenant
from store.home.config import Settings
from store.home.errors import (
    BuildBusy,
    BuildRefused,
    ConfigError,
    InvalidInput,
    MnemologError,
    ModelError,
    NotFound,
)
from store.home.files import make_folder
from store.home.packages import is_installed, require
from store.log.event_clock import wall_clock
from store.redaction.redact import redact
from store.snapshots.manifest import EXPECTED, NEWCOMERS, PAST_ANSWERS, SETTINGS, UPGRADE, Manifest
from store.text.excerpt import plural

EXIT_FAILED = 1
EXIT_BUSY = 75  # EX_TEMPFAIL of sysexits.h: the same call may do later


@click.group(help=__doc__)
def cli() -> None:
    pass


@cli.command()
@click.option("--tenant", "name", default=None, help="The tenant to build; else the set one.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@click.option("--full", is_flag=True, help="Build from the log alone; take nothing over.")
@click.option("--quick", is_flag=True, help="Without Dagster, hashing only what is new.")
@click.option("--accept", is_flag=True, help="Publish although past questions fare otherwise.")
@click.option(
    "--wait", "wait_s", default=60.0, show_default=True, help="Seconds, for another build."
)
def build(
    name: str | None, as_json: bool, full: bool, quick: bool, accept: bool, wait_s: float
) -> None:
    """Build, check and publish a tenant's memory in this process."""
    began, began_at = time.perf_counter(), wall_clock()
    settings = config.load()
    name = name or settings.choices.tenant
    tenant.find_tenant(settings.home, name)
    if not quick and not is_installed("dagster"):
        click.echo("Dagster is not installed: building without it, as --quick does", err=True)
        quick = True
    if quick:
        from pipelines.jobs import runner

        manifest = runner.build(settings, name, _report, full=full, accepts=accept, wait_s=wait_s)
    else:
        from rich.console import Console  # these imports take a second

        from pipelines.orchestration import in_process
        from pipelines.orchestration.in_process import Progress

        with Progress(Console(stderr=True)) as progress:
            manifest = in_process.build(
                settings, name, progress.report, full=full, accepts=accept, wait_s=wait_s
            )
    seconds = time.perf_counter() - began
    rows = manifest.projections["memories"].rows["memories"]
    nothing_new = "nothing is new, " if manifest.at < began_at else ""
    click.echo(
        f"{nothing_new}manifest {manifest.number}: {plural(rows, 'memory')} at event "
        f"{manifest.watermark:,} in {seconds:.1f} s",
        err=True,
    )
    for check in manifest.checks:
        if (
            check.name in (EXPECTED, SETTINGS, UPGRADE, PAST_ANSWERS, NEWCOMERS)
            and not check.passed
        ):
            click.echo(check.reason, err=True)
    if manifest.missing_vectors:
        click.echo(
            f"{plural(manifest.missing_vectors, 'text')} without a vector yet: "
            f"{manifest.embedder} did not answer; recall finds them by their words, "
            "the next build asks again",
            err=True,
        )
    _report_mirrors(settings, tenant.find_tenant(settings.home, name))
    if as_json:
        click.echo(_encode_manifest(manifest, seconds))


def _report_mirrors(settings: Settings, built: tenant.Tenant) -> None:
    """Print the mirrors that are behind, with the reason; drop the failures of removed mirrors."""
    from store.maintenance import mirrors

    for mirror in mirrors.every_mirror(settings.choices):
        if not mirror.url:
            failures.forget(built.root, mirror.kind)
    reasons = {failure.what: failure.said for failure in failures.every(built.root)}
    for mirror in mirrors.mirrors_behind(built, settings.choices):
        reason = reasons.get(mirror.kind, "it was not written yet")
        click.echo(f"{mirror} is behind: {reason}", err=True)


def _encode_manifest(manifest: Manifest, seconds: float) -> bytes:
    return msgspec.json.encode(
        {
            "manifest": manifest.number,
            "watermark": manifest.watermark,
            "rows": manifest.projections["memories"].rows["memories"],
            "bytes": manifest.bytes,
            "seconds": round(seconds, 3),
            "projections": {
                name: {"digest": ref.digest, "rows": ref.rows, "seconds": ref.seconds}
                for name, ref in manifest.projections.items()
            },
            "checks": manifest.checks,
        }
    )


@cli.command("run")
@click.argument("name")
@click.option("--tenant", default=None, help="Whose memory; else the set one's.")
@click.option("--project", default=None, help="Only of this project, and of none.")
@click.option("--root", default=None, help="The project's folder, where its files are looked at.")
@click.option("--session", default=None, help="Learn only from this session.")
@click.option("--apply", is_flag=True, help="Carry the plan out at once.")
@click.option("--no-model", is_flag=True, help="Do not use a model, even if one is set.")
@click.option("--estimate", is_flag=True, help="Ask no model and plan nothing: say what it costs.")
@click.option("--json", is_flag=True, expose_value=False, help="Print an error as JSON, too.")
def run_job(
    name: str,
    tenant: str | None,
    project: str | None,
    root: str | None,
    session: str | None,
    apply: bool,
    no_model: bool,
    estimate: bool,
) -> None:
    """Run a job; print its plan's id as JSON, null where it has nothing to do; or its estimate."""
    from pipelines.jobs import find_job, runner

    settings = config.load()
    tenant = tenant or settings.choices.tenant
    now = wall_clock()
    scope = runner.Scope(project=project, root=Path(root) if root else None, session=session)
    job = find_job(name)
    if estimate:
        cost = runner.estimate(job, settings, tenant, now, report=_report, **scope)
        click.echo(msgspec.json.encode({"estimate": cost}))
        return
    plan = runner.run(
        job, settings, tenant, now, apply=apply, report=_report, no_model=no_model, **scope
    )
    click.echo(json.dumps({"plan": plan.id if plan else None}))


@cli.command("split")
@click.option("--tenant", default=None, help="Whose memory; else the set one's.")
def split_question(tenant: str | None) -> None:
    """Split the question on standard input by the model; print its parts as JSON, or why not."""
    from pipelines.jobs.questions import split_by_model

    settings = config.load()
    question = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        split = split_by_model(settings, tenant or settings.choices.tenant, question)
    except ModelError as error:  # the rules do it
        click.echo(json.dumps({"failed": str(error)}))
    else:
        click.echo(msgspec.json.encode(split))


@cli.command()
@click.option("--tenant", default=None, help="Whose memory; else the set one's.")
@click.option("--project", default=None, help="Only of this project, and of none.")
@click.option("--dry-run", is_flag=True, help="Write nothing down.")
def recommend(tenant: str | None, project: str | None, dry_run: bool) -> None:
    """Look for changes that a person may want; print those that are new as JSON."""
    from pipelines.jobs.recommend import refresh

    settings = config.load()
    proposed = refresh(
        settings,
        tenant or settings.choices.tenant,
        wall_clock(),
        write=not dry_run,
        project=project,
        report=_report,
    )
    click.echo(msgspec.json.encode({"recommendations": proposed}))


def _report(text: str) -> None:
    click.echo(f"... {text}", err=True)


@cli.command("cold")
@click.option("--tenant", default=None, help="Whose memory; else the set one's.")
@click.option("--compact", is_flag=True, help="Put old receipts away, and nothing else.")
@click.option("--dry-run", is_flag=True, help="With --compact: only say how many.")
@click.option("--only-newest", is_flag=True, help="Drop what was served before.")
def cold_files(tenant: str | None, compact: bool, dry_run: bool, only_newest: bool) -> None:
    """Write the file of cold memories, or put old receipts away; print what was done as JSON."""
    from pipelines.jobs.archive import write_archive

    settings = config.load()
    written = write_archive(
        settings,
        tenant or settings.choices.tenant,
        wall_clock(),
        _report,
        compact=compact,
        dry_run=dry_run,
        only_newest=only_newest,
    )
    click.echo(msgspec.json.encode(written))


@cli.command()
@click.argument("name")
@click.option("--tenant", default=None, help="Whose memory; else the set one's.")
def learn(name: str, tenant: str | None) -> None:
    """Run a job as Dagster does by night, or all in order; print what became of each as JSON."""
    require("dagster")
    from rich.console import Console  # these imports take a second

    from pipelines.orchestration import in_process
    from pipelines.orchestration.in_process import Progress

    settings = config.load()
    with Progress(Console(stderr=True)) as progress:
        results = in_process.learn(
            settings, tenant or settings.choices.tenant, name, progress.report
        )
    click.echo(msgspec.json.encode({"jobs": results}))
    if any(result.outcome == "failed" for result in results):
        sys.exit(EXIT_FAILED)


@cli.command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535))
def ui(port: int) -> None:
    """Serve Dagster's pages on loopback; their sensor and schedules keep every memory fresh."""
    require("dagster")
    from pipelines.orchestration.dagster_home import run_ui

    sys.exit(run_ui(config.load(), port, _say_link))


@cli.command(hidden=True)  # started by `ui`, in a session of its own
@click.option("--port", required=True, type=click.IntRange(1, 65535))
def pages(port: int) -> None:
    """Serve Dagster's pages in this process."""
    from pipelines.orchestration.webserver import serve

    sys.exit(serve(config.load(), port, lambda link: _say_link(link, "Ctrl-C ends it")))


def _say_link(link: str, more: str = "") -> None:
    click.echo(link)
    text = "the link works once, within two minutes; `mnemolog ui` makes another"
    click.echo(f"{text}; {more}" if more else text, err=True)


def main() -> None:
    """Run the command line; every error becomes one line and an exit code."""
    os.umask(0o077)  # built files are their owner's alone, whoever started us
    try:
        cli(standalone_mode=False, prog_name="mnemolog-jobs")
        if (command := _unseen_command()) is not None:
            failures.forget(config.load().home, command)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BuildBusy as error:
        _fail("build_busy", f"busy: {error}", EXIT_BUSY)
    except BuildRefused as error:
        _fail("build_refused", f"refused, what was served still is:\n{error}")
    except (InvalidInput, NotFound, ConfigError) as error:  # the caller's to fix
        _fail("failed", str(error))
    except MnemologError as error:
        _keep_failure(str(error))
        _fail("failed", str(error))
    except Exception as error:
        if isinstance(error, OSError) and (disk_error := files.disk_error(error)) is not None:
            _keep_failure(str(disk_error))
            _fail("failed", str(disk_error))
        text = f"{type(error).__name__}: {error} ({_keep_traceback()})"
        _keep_failure(text)
        _fail("internal", text)


def _keep_traceback() -> str:
    """Keep the current traceback in a file; return its place, or the reason it has none."""
    path = config.load().dagster_home / "last-error.txt"
    try:
        make_folder(path.parent)
        path.write_text(redact(traceback.format_exc()))  # it may quote the bad input
    except OSError as error:  # a full disk, say, which may be the original failure
        return f"its traceback could not be kept: {error.strerror}"
    return f"traceback in {path}"


def _keep_failure(text: str) -> None:
    """Keep a failure for `mnemolog doctor`: an idle server's build has no terminal."""
    if (command := _unseen_command()) is not None:
        with suppress(OSError):  # the disk may have failed; the error is printed anyway
            failures.keep(config.load().home, command, wall_clock(), text)


def _unseen_command() -> str | None:
    """Return the name of the command that runs, where it may run unseen."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    return name if name in ("build", "run", "learn") else None


def _fail(code: str, message: str, exit_code: int = EXIT_FAILED) -> None:
    click.echo(message, err=True)
    if "--json" in sys.argv:
        click.echo(json.dumps({"error": {"code": code, "message": message}}))
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
