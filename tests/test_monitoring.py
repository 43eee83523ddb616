"""The board and the alerts in `deploy` use metrics that a running server has."""

import http.client
import itertools
import json
import re
from typing import Any

import pytest
import yaml
from test_docs import ROOT
from test_server import Server, Start, start

from store.home import failures
from store.home.tenant import tenant

__all__ = ["start"]  # the fixture of test_server

DEPLOY = ROOT / "deploy"
PROMETHEUS = {"up"}  # Prometheus itself adds these to each target
ADDED_LABELS = {"job", "instance"}
WORDS = set("and by bool count histogram_quantile ignoring max min on or rate sum vector".split())
LABELLED = re.compile(r"([a-z_:]+)\{([^}]*)\}")
SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? \S+")


def board() -> Any:
    return json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))


def rules() -> list[Any]:
    text = (DEPLOY / "alerts.yml").read_text(encoding="utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


@pytest.fixture
def server(start: Start) -> Server:
    """A server with answered, failed and refused requests, so that every label is present."""
    server = start(build_after="0").ready()
    server.add("Deploys go out from eu-west-1 only")
    server.recall("where do deploys go out from")
    server.ask("/v1/no-such-address")
    failures.keep(tenant(server.home).root, "replica", 1, "the bucket does not answer")
    return server


def scrape(server: Server) -> str:
    """Return a server's metrics, requested with the settings of `prometheus.yml`."""
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
            labels_ = re.findall(r'([a-z]+)="', sample[2] or "")
            labels.setdefault(sample[1], set()).update(labels_)
    return names, labels


def test_every_dashboard_expression_uses_existing_metrics(server: Server):
    text = scrape(server)
    names, labels = metrics(text)
    targets = [target for panel in board()["panels"] for target in panel["targets"]]
    expressions = [target["expr"] for target in targets] + [rule["expr"] for rule in rules()]
    assert len(expressions) > 25
    used: set[str] = set()
    for expression in expressions:
        matches = LABELLED.findall(expression)
        bare = re.sub(r"\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}|\bby \([^)]*\)", " ", expression)
        written = set(re.findall(r"(?<![\w.])[a-z][a-z_]+", bare)) - WORDS
        assert written == {name for name, _ in matches} != set(), expression
        grouped = {
            label
            for some in re.findall(r"by \(([^)]*)\)", expression)
            for label in some.split(", ")
        }
        for name, matchers in matches:
            matched = set(re.findall(r"([a-z]+)(?:=~|!=|!~|=)", matchers))
            assert name in names | PROMETHEUS and "job" in matched, expression
            if name in labels:
                assert (matched | grouped) - ADDED_LABELS <= labels[name], expression
        used |= {name for name, _ in matches}
    unused = {name for name in labels if not name.endswith(("_sum", "_count"))} - used
    assert unused == {"mnemolog_manifest"}  # its value only distinguishes builds
    states = {
        state
        for expression in expressions
        for state in re.findall(r'state!?="([a-z]+)"', expression)
    }
    assert states == {"done", "dead"} and all(f'state="{state}"' in text for state in states)


def test_grafana_can_import_the_board():
    dashboard = board()
    assert dashboard["schemaVersion"] >= 36 and dashboard["title"] == "mnemolog"
    assert {"uid", "tags", "time", "refresh", "annotations"} <= dashboard.keys()
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    text = json.dumps(dashboard)
    assert set(re.findall(r"\$\{?([a-z]+)\}?", text)) == {*variables}
    source = {"type": "prometheus", "uid": "${datasource}"}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 15
    for each in panels:
        assert each["type"] in ("stat", "timeseries") and each["title"] and each["description"]
        assert each["datasource"] == source
        assert [target["refId"] for target in each["targets"]] == list("ABC")[
            : len(each["targets"])
        ]
        assert all(target["datasource"] == source for target in each["targets"])
        place = each["gridPos"]
        assert place["x"] >= 0 and place["w"] > 0 and place["x"] + place["w"] <= 24
    for first, other in itertools.combinations(panels, 2):
        a, b = first["gridPos"], other["gridPos"]
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, (first["title"], other["title"])


def test_the_alerts_are_what_prometheus_reads():
    alerts = rules()
    assert len({rule["alert"] for rule in alerts}) == len(alerts) > 5
    for rule in alerts:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}, rule
        assert re.fullmatch(r"[A-Z][A-Za-z]+", rule["alert"])
        assert re.fullmatch(r"[0-9]+[smhd]", rule.get("for", "0s")), rule
        assert re.search(r" (==|>|<) [0-9.e]+$", rule["expr"]), rule
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "cure"}
        labels_ = set(re.findall(r"\$labels\.([a-z]+)", rule["annotations"]["summary"]))
        assert labels_ <= {"tenant", "what"} and ("sum(" not in rule["expr"] or not labels_)
