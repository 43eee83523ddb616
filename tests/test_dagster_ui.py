"""
The UI, started for real: it lists the assets, builds what is new, stays at home and ends whole.
"""

import os
import socket
import sys
from typing import Any

import pytest
from dagster_page import group_of, start, until

from pipelines import jobs
from store import manifest as manifests
from store import projections
from store.config import Settings
from store.embedding import LexicalEmbedder
from store.errors import NoManifest
from store.registry import dagster_ui

ASSETS = {
    *((one.name,) for one in projections.all_of(LexicalEmbedder())),
    *(("learning", name) for name in jobs.PLACES),
    ("event_log",),
    ("canaries",),
    ("recall_quality",),
    ("published_manifest",),
    ("vector_table",),
}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="looks at POSIX process groups")


def test_ui_lists_assets_builds_what_is_new_and_ends_whole(dagster_page):
    page = dagster_page()
    until(lambda: assets_of(page.ask("{assetNodes {assetKey {path}}}")) == ASSETS, 60)
    assert until(lambda: published(page.good), 60) == 1
    children = group_of(page.process.pid)
    settings = Settings(page.good.root.parents[1])
    known = until(lambda: dagster_ui(settings), 60)
    assert known is not None and known.url == page.url
    output = page.end()
    assert dagster_ui(settings) is None
    assert page.url in output
    assert len(children) >= 4
    assert until(lambda: not alive(children), 5)
    assert [path for path in page.user.rglob("*") if path.is_file()] == []
    assert [path.name for path in page.stands_in.iterdir()] == ["store"]


def test_taken_port_is_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(taken.getsockname()[1], tmp_path / "home", tmp_path, tmp_path)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "is taken: choose another with --port" in output
    assert output.count("\n") == 1


def assets_of(data: dict[str, Any]) -> set[tuple[str, ...]]:
    return {tuple(one["assetKey"]["path"]) for one in data.get("assetNodes", ())}


def published(found: Any) -> int | None:
    try:
        return manifests.current(found).number
    except NoManifest:
        return None


def alive(pids: list[int]) -> list[int]:
    left = []
    for pid in pids:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        left.append(pid)
    return left
