"""
forms: for any input to the dashboard's forms and pages, and to the API's operations, nothing fails,
nothing is written without the form's own token, and no input comes back as markup.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from api_memory import populated
from conftest import remember
from dashboard_page import HOST, Browser, application, browser
from torture import operations
from torture.hostile_texts import hostile
from torture.outcome import Outcome, Scale
from torture.rpc import Defects, listened
from werkzeug.routing import Rule
from werkzeug.test import TestResponse

from serve.server.open_tenants import OpenTenants
from store.embedders.lexical import LexicalEmbedder
from store.home.config import Settings
from store.home.tenant import Tenant, tenant
from store.log.event_log import EventLog
from store.maintenance.build import rebuild

ROOT = Path(__file__).resolve().parents[2]
NOW = 1_790_000_100_000_000
MARKUP = "\"'><xss-a onx=1>{{7*7}}</script></textarea></title>javascript:alert(1)"
RAW = re.compile(r"<xss-a|49</script>|href=[\"']?\s*javascript:", re.IGNORECASE)
# they start a process, end the client's session, or delete the memory under test
SPARED = ("/jobs/build", "/jobs/run", "/logout", "/access/delete")
KNOWN = ("m00", "m13", "g1", "k2", "s1", "r1", "r2", "j1", "default", "Anna", "store/log.py", "x")
LIKELY = (
    "1",
    "0",
    "-1",
    "on",
    "fact",
    "lesson",
    "active",
    "apply",
    "accept",
    "reject",
    "undo",
    "7d",
)
_NAMED = re.compile(r'name="(\w+)"')


def attack(folder: Path, scale: Scale) -> Iterator[Outcome]:
    """Yield the outcomes of forms and pages, then, at full scale, of operations."""
    home = folder / "home"
    with EventLog(tenant(home).log, create=True) as log:
        _fill(tenant(home), log)
    opened = OpenTenants(Settings(home))
    try:
        with listened() as defects:
            asks = browser(application(opened, lambda: NOW))
            yield _forms(asks, opened, defects, scale.of(300, 6_000))
            yield _strangers(asks, opened, scale.of(100, 1_000))
            yield _pages(asks, opened, defects, scale.of(200, 3_000))
    finally:
        opened.close()
    if scale is Scale.FULL:  # at every push, tests/test_schemathesis.py does this
        yield _operations(folder / "operations")


def _fill(tenant: Tenant, log: EventLog) -> None:
    """Write events of all kinds."""
    remember(log)
    embedder = LexicalEmbedder()
    populated(SimpleNamespace(log=log, rebuild=lambda: rebuild(tenant, log, embedder, NOW)))


def _rules(asks: Browser, method: str) -> list[Rule]:
    """Return the dashboard's URL rules that accept a method."""
    rules = asks.client.application.url_map.iter_rules()
    return [
        rule
        for rule in sorted(rules, key=lambda rule: rule.rule)
        if method in (rule.methods or ())
        and rule.rule.startswith("/t/")
        and not rule.rule.endswith(SPARED)
    ]


def _names() -> Sequence[str]:
    """Return the field names of the templates."""
    folder = ROOT / "serve" / "dashboard" / "templates"
    texts = (path.read_text() for path in sorted(folder.rglob("*.html")))
    return sorted({name for text in texts for name in _NAMED.findall(text)} - {"csrf"})


def _value(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.3:
        return chance.choice(KNOWN)
    if kind < 0.6:
        return chance.choice(LIKELY)
    if kind < 0.7:
        return MARKUP
    return hostile(chance, longest=3_000).encode("utf-8", "replace").decode()


def _fields(chance: random.Random, names: Sequence[str]) -> dict[str, str]:
    return {name: _value(chance) for name in chance.sample(names, chance.randrange(9))}


def _path(chance: random.Random, rule: Rule) -> str:
    """Return a path of a rule: mostly of the existing tenant and a known id."""
    values: dict[str, Any] = {name: _value(chance)[:200] for name in rule.arguments}
    if "tenant" in values and chance.random() < 0.95:
        values["tenant"] = "default"
    if "id_" in values and chance.random() < 0.7:
        values["id_"] = chance.choice(KNOWN)
    built = rule.build(values)
    return str(built[1]) if built else rule.rule


def _fault(answer: TestResponse, defects: Defects) -> str:
    """Return the fault of a page, or an empty text."""
    if answer.status_code >= 500:
        return str(answer.status_code)
    if defects.told:
        return "; ".join(defects.told)
    if "Traceback (most" in answer.text:
        return "a traceback"
    if (match := RAW.search(answer.text)) and answer.mimetype == "text/html":
        return f"markup came back: {answer.text[max(0, match.start() - 80) : match.end() + 20]!r}"
    if answer.status_code == 303 and not answer.headers["Location"].startswith("/"):
        return f"leads to {answer.headers['Location']:.100}"
    return ""


def _forms(asks: Browser, opened: OpenTenants, defects: Defects, count: int) -> Outcome:
    """Send forms as a page of ours would, except for their content."""
    chance, names, rules = random.Random(11), _names(), _rules(asks, "POST")
    statuses, wrong = Counter[int](), list[str]()
    for _ in range(count):
        path, fields = _path(chance, chance.choice(rules)), _fields(chance, names)
        answer = asks.post(path, **fields)
        statuses[answer.status_code] += 1
        if fault := _fault(answer, defects):
            wrong.append(f"{path!r:.100} {fields!r:.300}: {fault}")
            defects.told.clear()
    if statuses[303] < count / 20:
        wrong.append(f"too few were taken: {statuses}")
    return Outcome(
        "the dashboard's forms", count, "forms", wrong, _status_counts(statuses), floor=6_000
    )


def _strangers(asks: Browser, opened: OpenTenants, count: int) -> Outcome:
    """Send the same without the page's token, with a wrong one, or as a body of another type."""
    chance, names, rules = random.Random(12), _names(), _rules(asks, "POST")
    before, wrong = _state(opened), list[str]()
    for _ in range(count):
        path, fields = _path(chance, chance.choice(rules)), _fields(chance, names)
        csrf = chance.choice(("", asks.csrf[:-1], asks.csrf + "x", asks.csrf.swapcase(), MARKUP))
        if chance.random() < 0.7:
            answer = asks.client.post(path, data=fields | {"csrf": csrf}, headers=HOST)
        else:
            type_ = chance.choice(("text/plain", "application/json", "multipart/form-data"))
            sent = f"csrf={asks.csrf}&text=x"
            answer = asks.client.post(path, data=sent, content_type=type_, headers=HOST)
        if answer.status_code not in (403, 415):
            wrong.append(f"{path!r:.100} {csrf!r}: {answer.status_code}")
    if _state(opened) != before:
        wrong.append("something was written")
    return Outcome("forms without their token", count, "forms", wrong, floor=1_000)


def _pages(asks: Browser, opened: OpenTenants, defects: Defects, count: int) -> Outcome:
    """Get pages with any query; reading writes nothing."""
    chance, rules = random.Random(13), _rules(asks, "GET")
    names = sorted({*_names(), "q", "from", "sort", "state", "after", "kind", "name", "flash"})
    opened.get("default").notes.write()
    before, statuses, wrong = _state(opened), Counter[int](), list[str]()
    for _ in range(count):
        path, fields = _path(chance, chance.choice(rules)), _fields(chance, names)
        answer = asks.client.get(path, query_string=fields, headers=HOST)
        statuses[answer.status_code] += 1
        if fault := _fault(answer, defects):
            wrong.append(f"{path!r:.100} {fields!r:.300}: {fault}")
            defects.told.clear()
        if "Content-Security-Policy" not in answer.headers and answer.status_code == 200:
            if answer.mimetype == "text/html":
                wrong.append(f"{path!r:.100}: no policy")
    if _state(opened) != before:
        wrong.append("looking wrote something")
    return Outcome(
        "the dashboard's pages", count, "pages", wrong, _status_counts(statuses), floor=3_000
    )


def _state(opened: OpenTenants) -> tuple[object, ...]:
    """Return the stored state: the head of the log, and the files beside it."""
    home = opened.settings.home
    files = [home / name for name in ("tokens.json", "config.toml")]
    contents = [path.read_bytes() if path.exists() else b"" for path in files]
    return (
        opened.get("default").log.head(),
        sorted(p.name for p in (home / "tenants").iterdir()),
        contents,
    )


def _status_counts(statuses: Counter[int]) -> str:
    return ", ".join(f"{number:,} answered {status}" for status, number in sorted(statuses.items()))


def _operations(home: Path) -> Outcome:
    """Have schemathesis try every operation of the API, 200 times each."""
    tenant_ = tenant(home)
    with EventLog(tenant_.log, create=True) as log:
        _fill(tenant_, log)
    with operations.served(tenant_) as app:
        requests, problems = operations.asked(app, operations.EXAMPLES)
    wrong = [f"{name}: {text:.300}" for name, text in sorted(problems.items())]
    phases = ", ".join(f"{number:,} {phase}" for phase, number in sorted(requests.items()))
    return Outcome(
        "operations, by schemathesis", requests.total(), "requests", wrong, phases, floor=10_000
    )
