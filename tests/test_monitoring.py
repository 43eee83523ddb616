"""The board and the alerts in `deploy` ask for metrics that a running server has."""

import http.client
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from test_docs import ROOT
from test_server import Server, Start, start

from store.home import failures
from store.home.tenant import tenant

__all__ = ["start"]  # the fixture of test_server

DEPLOY = ROOT / "deploy"
PROMETHEUS = {"up"}  # what Prometheus itself adds to each target
ADDED_LABELS = {"job", "instance"}
WORDS = set("and by bool count histogram_quantile ignoring max min on or rate sum vector".split())
LABELLED = re.compile(r"([a-z_:]+)\{([^}]*)\}")
SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? \S+")


def board() -> Any:
    return json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))


def rules() -> list[Any]:
    text = (DEPLOY / "alerts.yml").read_text(encoding="utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def expressions() -> Iterator[str]:
    for panel in board()["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (rule["expr"] for rule in rules())


@pytest.fixture
def server(start: Start) -> Server:
    """A server that has answered, failed and refused something, so that every label is there."""
    made = start(build_after="0").ready()
    made.add("Deploys go out from eu-west-1 only")
    made.recall("where do deploys go out from")
    made.ask("/v1/no-such-address")
    failures.keep(tenant(made.home).root, "replica", 1, "the bucket does not answer")
    return made


def scrape(server: Server) -> str:
    """Return a server's metrics, asked as `prometheus.yml` has Prometheus ask."""
    scraped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
    [job] = scraped["scrape_configs"]
    assert job["job_name"] == "mnemolog"
    [address] = job["static_configs"][0]["targets"]
    fields = {"Host": address, "Authorization": f"{job['authorization']['type']} {server.token}"}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", job.get("metrics_path", "/metrics"), headers=fields)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, text
    return text


def metrics(text: str) -> tuple[set[str], dict[str, set[str]]]:
    """Return the names of the metrics in a text, and the labels of those with samples."""
    names, labels = set(), dict[str, set[str]]()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            names |= {name + end for end in ends}
        elif sample := SAMPLE.fullmatch(line):
            found = re.findall(r'([a-z]+)="', sample[2] or "")
            labels.setdefault(sample[1], set()).update(found)
    return names, labels


def test_every_expression_asks_for_what_the_server_tells(server: Server):
    text = scrape(server)
    names, labels = metrics(text)
    asked = list(expressions())
    assert len(asked) > 25
    used: set[str] = set()
    for one in asked:
        found = LABELLED.findall(one)
        bare = re.sub(r"\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}|\bby \([^)]*\)", " ", one)
        written = set(re.findall(r"(?<![\w.])[a-z][a-z_]+", bare)) - WORDS
        assert written == {name for name, _ in found} != set(), one
        grouped = {
            label for some in re.findall(r"by \(([^)]*)\)", one) for label in some.split(", ")
        }
        for name, matchers in found:
            matched = set(re.findall(r"([a-z]+)(?:=~|!=|!~|=)", matchers))
            assert name in names | PROMETHEUS and "job" in matched, one
            if name in labels:
                assert (matched | grouped) - ADDED_LABELS <= labels[name], one
        used |= {name for name, _ in found}
    unused = {name for name in labels if not name.endswith(("_sum", "_count"))} - used
    assert unused == {"mnemolog_manifest"}  # a number that only tells builds apart
    states = {state for one in asked for state in re.findall(r'state!?="([a-z]+)"', one)}
    assert states == {"done", "dead"} and all(f'state="{state}"' in text for state in states)


def test_grafana_can_import_the_board():
    made = board()
    assert made["schemaVersion"] >= 36 and made["title"] == "mnemolog"
    assert {"uid", "tags", "time", "refresh", "annotations"} <= made.keys()
    variables = {one["name"]: one for one in made["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    text = json.dumps(made)
    assert set(re.findall(r"\$\{?([a-z]+)\}?", text)) == {*variables}
    source = {"type": "prometheus", "uid": "${datasource}"}
    panels = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 15
    for one in panels:
        assert one["type"] in ("stat", "timeseries") and one["title"] and one["description"]
        assert one["datasource"] == source
        assert [target["refId"] for target in one["targets"]] == list("ABC")[: len(one["targets"])]
        assert all(target["datasource"] == source for target in one["targets"])
        place = one["gridPos"]
        assert place["x"] >= 0 and place["w"] > 0 and place["x"] + place["w"] <= 24
    for one, other in itertools.combinations(panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, (one["title"], other["title"])


def test_the_alerts_are_what_prometheus_reads():
    made = rules()
    assert len({one["alert"] for one in made}) == len(made) > 5
    for one in made:
        assert one.keys() <= {"alert", "expr", "for", "labels", "annotations"}, one
        assert re.fullmatch(r"[A-Z][A-Za-z]+", one["alert"])
        assert re.fullmatch(r"[0-9]+[smhd]", one.get("for", "0s")), one
        assert re.search(r" (==|>|<) [0-9.e]+$", one["expr"]), one
        assert one["expr"].count("(") == one["expr"].count(")")
        assert one["labels"]["severity"] in ("warning", "critical")
        assert one["annotations"].keys() == {"summary", "cure"}
        told = set(re.findall(r"\$labels\.([a-z]+)", one["annotations"]["summary"]))
        assert told <= {"tenant", "what"} and ("sum(" not in one["expr"] or not told)
