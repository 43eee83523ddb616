"""
The jobs as a person sees them: Dagster's pages in a real browser, on a home that `mnemolog ui`
keeps
up to date. For two of its tenants, the log makes every build fail.
"""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from dagster_page import Page, until
from dashboard_page import chromium, needs_chromium, served
from flask import Flask

from pipelines import jobs
from store.derived import catalog
from store.embedders.lexical import LexicalEmbedder
from store.home.http_access import owner_token, signer
from store.snapshots import manifest as manifests

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

GROUP = "locations/__repository__@mnemolog/asset-groups"
WAIT_MS = 120_000

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="looks at POSIX process groups"),
    needs_chromium,
]


@pytest.fixture(scope="module")
def page(dagster_page) -> Page:
    """The UI, after it has built one tenant and refused the others."""
    found: Page = dagster_page()
    until(lambda: found.good.head.exists(), 400)
    until(lambda: all(map(manifests.last_refusal, (found.leaky, found.refused))), 400)
    return found


@pytest.fixture(scope="module")
def tab(page: Page) -> Iterator["Tab"]:
    """A logged-in tab, large enough to draw a whole graph."""
    opened = chromium().new_page(viewport={"width": 2400, "height": 3200})
    opened.set_default_timeout(WAIT_MS)
    opened.goto(page.link())
    opened.wait_for_url(f"{page.url}/**/overview/**")
    yield opened
    opened.close()


def drawn(tab: "Tab", wanted: set[str]) -> set[str]:
    """Return the wanted assets that are nodes of the shown graph; wait for all of them."""
    nodes = tab.locator("svg foreignObject")
    for name in wanted:
        nodes.filter(has_text=name).first.wait_for()
    told = nodes.all_text_contents()
    return {name for name in wanted if any(text.startswith(name) for text in told)}


def test_the_graph_has_a_node_for_every_asset_of_a_build(page, tab, tmp_path):
    tab.goto(f"{page.url}/{GROUP}/memory/lineage")
    built = {projection.name for projection in catalog.all_projections(LexicalEmbedder())}
    wanted = built | {"event_log", "canaries", "published_manifest", "vector_table"}
    assert drawn(tab, wanted) == wanted
    tab.screenshot(path=tmp_path / "graph.png")
    assert (tmp_path / "graph.png").stat().st_size > 50_000  # the graph has nodes


def test_the_jobs_that_learn_follow_what_is_served(page, tab):
    tab.goto(f"{page.url}/{GROUP}/learning/lineage")
    wanted = {"published_manifest", *jobs.JOBS}
    assert drawn(tab, wanted) == wanted


def test_asset_partition_and_check_show_which_one_of_three_tenants_was_refused(page, tab, tmp_path):
    def statuses() -> tuple[list[str], list[str], list[str], list[str]]:
        """Return the tenants built and refused, then those with a passed and a failed check."""
        found = page.ask(
            """{assetNodeOrError(assetKey: {path: ["lessons"]}) {... on AssetNode {
            assetPartitionStatuses {... on DefaultPartitionStatuses {
            materializedPartitions failedPartitions}}
            assetChecksOrError {... on AssetChecks {checks {partitionStatuses {
            ... on AssetCheckDefaultPartitionStatuses {
            succeededPartitions failedPartitions}}}}}}}}"""
        )["assetNodeOrError"]
        built = found["assetPartitionStatuses"]
        (check,) = found["assetChecksOrError"]["checks"]
        return (
            sorted(built["materializedPartitions"]),
            built["failedPartitions"],
            sorted(check["partitionStatuses"]["succeededPartitions"]),
            check["partitionStatuses"]["failedPartitions"],
        )

    others = ["default", "leaky"]
    until(lambda: statuses() == (others, ["refused"], others, ["refused"]), 400)
    tab.goto(f"{page.url}/assets/lessons?view=partitions")
    tab.get_by_text("Failed (1)").wait_for()
    tab.get_by_text("Materialized (2)").wait_for()

    def is_shown() -> bool:
        """Return True if the page counts them; loaded during a build, it never does."""
        tab.goto(f"{page.url}/assets/lessons?view=checks&checkDetail=lessons_match_log")
        tab.get_by_text("Execution history").first.wait_for()
        tab.get_by_text("Partitions", exact=True).nth(1).click()  # the asset's own tab comes first
        tab.get_by_text("Failed (1)", exact=True).wait_for()
        tab.screenshot(path=tmp_path / "refused.png")
        return tab.get_by_text("Passed (2)").is_visible()

    until(is_shown, 400)


def test_a_run_shows_its_steps_which_of_them_failed_and_why(page, tab, tmp_path):
    *_, run = page.ask(
        """{runsOrError(filter: {tags: [{key: "dagster/partition", value: "leaky"}]})
        {... on Runs {results {runId}}}}"""
    )["runsOrError"]["results"]  # the first run: a later one builds without the memory
    tab.goto(f"{page.url}/runs/{run['runId']}")
    for text in ("memories", "event_log", "Failure", "leaky", "no_self_injection"):
        tab.get_by_text(text).first.wait_for()
    tab.get_by_text("1 memory holding an injected block: memory planted").first.wait_for()
    tab.screenshot(path=tmp_path / "run.png")
    assert "kept from everybody" not in tab.content()


def test_who_is_logged_in_at_the_dashboard_follows_its_link_to_dagster(page, tab):
    sessions = signer(owner_token(page.settings), page.settings)
    cookie = {"name": sessions.cookie, "value": sessions.value(time.time_ns() // 1_000)}
    dashboard = Flask("dashboard")  # any page on another port
    dashboard.add_url_rule("/", "index", lambda: f'<a href="{page.url}">Dagster</a>')
    with served(dashboard) as address:
        opened = tab.context.browser.new_page()
        opened.context.add_cookies([{**cookie, "url": address}])
        opened.goto(address)
        opened.get_by_text("Dagster").click()
        opened.wait_for_url(f"{page.url}/**/overview/**", timeout=WAIT_MS)
        opened.context.close()
