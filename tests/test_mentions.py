import pytest
from hypothesis import given
from hypothesis import strategies as st
from linear_time import assert_linear

from store.text.mentions import MAX_CHARS, MAX_MENTIONS, Mention, mentions


def named(kind: str, text: str) -> list[str]:
    return [mention.name for mention in mentions(text) if mention.kind == kind]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see src/auth/login.py", "src/auth/login.py"),
        ("**login.py**, and more", "login.py"),
        ("in ./Makefile.", "Makefile"),
        ("the Dockerfile, rebuilt", "Dockerfile"),
        (r"open C:\x\Y.ts", "c:/x/y.ts"),
        ("(.github/workflows/ci.yml:12)", ".github/workflows/ci.yml"),
        ("../lib/a-b.test.tsx", "lib/a-b.test.tsx"),
        ("my .env.local", ".env.local"),
        ("使用login.py文件", "login.py"),
        ("README.MD", "README.MD"),
    ],
)
def test_a_file_is_found(text: str, name: str):
    assert named("file", text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "and/or, e.g. this",
        "Node.js and docs.rs",
        "*_test.py",
        "<name>.py",
        "a.py/b.py",
        "version 3.11",
        "jane@corp.py",
        "console.log(x)",
        "sql.SQL",
        "process.env",
        "//comment.py",
    ],
)
def test_what_only_looks_like_a_file_is_none(text: str):
    assert named("file", text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("call parseUrl now", "parseUrl"),
        ("a LoginForm", "LoginForm"),
        ("HTTPServer", "HTTPServer"),
        ("user_id", "user_id"),
        ("MAX_RETRIES=3", "MAX_RETRIES"),
        ("store.log.event_log.append(x)", "store.log.event_log.append"),
        ("Foo::bar", "Foo::bar"),
        ("self.max_retries", "max_retries"),
        ("the `login` one", "login"),
        ("`user.email`", "user.email"),
        ("run close() last", "close"),
    ],
)
def test_a_symbol_is_found(text: str, name: str):
    assert named("symbol", text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "GitHub and JavaScript",
        "Mr McDonald",
        "APIs, IDs",
        "_very_ nice, __bold__",
        "`true`",
        "`example.com`",
        "--max_retries",
        "file(s)",
        "id a1B2c3D4e5F6g7",
        "Hello World",
    ],
)
def test_what_only_looks_like_a_symbol_is_none(text: str):
    assert named("symbol", text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("`npm i lodash react -D`", ["lodash", "react"]),
        ("npm install lodash and then restart", ["lodash"]),
        ("pip install -U 'requests[socks]>=2'", ["requests"]),
        ("import numpy as np", ["numpy"]),
        ("from flask_login.utils import x", ["flask-login"]),
        ("use serde::Serialize;", ["serde"]),
        ("@scope/pkg here", ["@scope/pkg"]),
        ('"react": "^18"', ["react"]),
        ("cargo add tokio, go get github.com/x/y@v1", ["tokio", "github.com/x/y"]),
        ("import x from '@a/b/c'", ["@a/b"]),
        ("lodash@4.17.21", ["lodash"]),
        ("Vue.js", ["vue"]),
    ],
)
def test_packages_are_found(text: str, names: list[str]):
    assert named("package", text) == names


@pytest.mark.parametrize(
    "text",
    [
        "import data from the file",
        "pip install -r requirements.txt",
        "npm install again",
        "import os",
        '"version": "1.2.3"',
        "require('./x')",
        "ssh user@10.0.0.1",
        "use it",
    ],
)
def test_what_only_looks_like_a_package_is_none(text: str):
    assert named("package", text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ran pnpm test twice", "pnpm test"),
        ("git rebase -i HEAD~3", "git rebase"),
        ("$ make build", "make build"),
        ("`FOO=1 uv run pytest -q`", "uv run pytest"),
        ("`pytest -x tests`", "pytest"),
        ("`python3 -m venv .v`", "python -m venv"),
        ("npm i", "npm install"),
        ("then docker compose up, again", "docker compose up"),
        ("```sh\nmake lint\n```", "make lint"),
    ],
)
def test_a_command_is_found(text: str, name: str):
    assert named("command", text) == [name]


@pytest.mark.parametrize("text", ["make sure", "go get it", "git is fine", "legit commit", "`x y`"])
def test_what_only_looks_like_a_command_is_none(text: str):
    assert named("command", text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("E0308 and TS2345", ["E0308", "TS2345"]),
        ("ERR_CONNECTION_REFUSED", ["ERR_CONNECTION_REFUSED"]),
        ("got ECONNREFUSED:", ["ECONNREFUSED"]),
        ("SQLITE_BUSY_TIMEOUT", ["SQLITE_BUSY_TIMEOUT"]),
        ("HTTP 404/503", ["HTTP 404", "HTTP 503"]),
        ("502 Bad Gateway, status code: 429", ["HTTP 429", "HTTP 502"]),
        ("CVE-2024-1234", ["CVE-2024-1234"]),
        ("sqlite3.OperationalError: no", ["OperationalError"]),
        ("`KeyError`", ["KeyError"]),
        ("exited with code 137", ["exit code 137"]),
    ],
)
def test_errors_are_found(text: str, names: list[str]):
    assert sorted(named("error", text)) == sorted(names)


@pytest.mark.parametrize("text", ["HTTP 200", "an Error", "404 items", "exit code 0", "EVERY"])
def test_what_only_looks_like_an_error_is_none(text: str):
    assert named("error", text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ask @octocat about it", "octocat"),
        ("Yesterday Jane Doe said no", "jane doe"),
        ("Reviewed-by: Ann Lee <a@b.c>", "ann lee"),
        ("according to José Núñez", "josé núñez"),
    ],
)
def test_a_person_is_found(text: str, name: str):
    assert named("person", text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "@dataclass\nclass A",
        "@octocat\ndef f",
        "`@octocat`",
        "@app.route('/')",
        "The Server said",
        "@scope/pkg",
        "Cloud Build reported",
        "jane@corp.com",
        "@Injectable here",
    ],
)
def test_what_only_looks_like_a_person_is_none(text: str):
    assert named("person", text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The invoices are Priya's", ["priya"]),
        ("Ask Mei Tanaka about it", ["mei tanaka"]),
        ("Priya owns the export", ["priya"]),
        ("we left Memcached for Redis", ["memcached", "redis"]),
        ("code of harborworks/platform on GitHub", ["harborworks/platform", "github"]),
        ("Wir fragen Frau Petersen nach dem Server", ["petersen"]),
        ("Die Rechnung liegt bei Aylin", ["aylin"]),
        ("Faturaları Elif kontrol ediyor, ışık açık", ["elif"]),
        ("佐藤さんに Redis を聞く", ["佐藤", "redis"]),
    ],
)
def test_a_name_is_found(text: str, names: list[str]):
    assert named("name", text) == names


@pytest.mark.parametrize(
    "text",
    [
        "Kestrel is slow",  # a guess: see test_entities
        "Always run Tests On Monday Before Noon Please",
        "We speak English on Fridays in May",
        "the JSON of the API in UTC",
        "NEVER DO THIS",
        "```sql\nSELECT Name FROM Users\n```",
        "| Name | of Users |",
        "Die Datenbank braucht eine neue Sicherung",
        "read/write and and/or",
        "皆さん、お客様",
    ],
)
def test_what_only_has_a_capital_is_no_name(text: str):
    assert named("name", text) == []


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("host", "runs on db-stage-02.", "db-stage-02"),
        ("host", "restart harbor-gateway's proxy", "harbor-gateway"),
        ("host", "at grafana.harbor.example, log in", "grafana.harbor.example"),
        ("host", "the camera (192.168.1.40:8554)", "192.168.1.40"),
        ("ticket", "HARB-412 is blocked", "HARB-412"),
    ],
)
def test_a_host_and_a_ticket_are_found(kind: str, text: str, name: str):
    assert named(kind, text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "a long-term, server-side plan in 2-3 steps",
        "version 300.1.2.3 on 127.0.0.1",
        "UTF-8 and utf-8, SHA-256",
        "jane@corp.com, e.g. done.Next",
        "src/a-api/x",
    ],
)
def test_what_only_looks_like_a_host_or_a_ticket_is_none(text: str):
    assert named("host", text) == named("ticket", text) == []


@pytest.mark.parametrize(
    ("speaker", "names"),
    [("Caroline", ["caroline"]), ("Jane Q. Doe", ["jane q. doe"]), ("@octocat", ["octocat"])]
    + [(other, []) for other in ("claude-code", "Claude", "user", "Assistant", "", "Jane 2")],
)
def test_a_speaker_counts_only_as_a_person(speaker: str, names: list[str]):
    assert [mention.name for mention in mentions("", speaker=speaker)] == names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("(https://User:pw@Example.com:443/a_(b)#top).", "https://example.com/a_(b)"),
        ("[l](http://a.b/)", "http://a.b"),
        ("http://localhost:8000/x.py?q=1,", "http://localhost:8000/x.py?q=1"),
    ],
)
def test_a_url_is_normalised_and_nothing_inside_it_counts(text: str, name: str):
    (mention,) = mentions(text)
    assert (mention.kind, mention.name) == ("url", name)
    assert "pw" not in mention.alias


def test_addresses_of_other_kinds_are_passed_over():
    assert mentions("postgres://me:secret@host/app_db/x.py") == ()


def test_order_is_of_first_appearance_and_each_entity_comes_once():
    names = mentions("`pnpm test` broke login.py: KeyError in ./login.py, see login.py")
    assert [mention.name for mention in names] == ["pnpm test", "login.py", "KeyError"]


def test_an_alias_keeps_the_written_form():
    assert mentions("see ./src/a.py") == (Mention("file", "src/a.py", "./src/a.py"),)


def test_plain_prose_has_no_mentions():
    assert (
        mentions("We always check that the cache is warm, because users wait. It's 3 o'clock.")
        == ()
    )


def test_mentions_are_capped():
    assert len(mentions(" ".join(f"name_{n}" for n in range(200)))) == MAX_MENTIONS


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("`@./:_-$\n #git"))))
def test_no_text_raises(text: str):
    for mention in mentions(text, speaker=text[:20]):
        assert mention.name and mention.alias


PIECES = """a|A|`|` |```\n|a_|a.|a/|::|@a|git |npm i |import |import x from |"a|http://|(|\n$ |aA1|
E0|Jane Doe |by Jane |Jo-|J |a-1|1.|{=|\n    |さん""".split("|")


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("start", ["", "http://"])
def test_run_time_is_linear_in_the_text(start: str, piece: str):
    most = MAX_CHARS // len(piece)
    assert_linear(mentions, start + piece * (most // 8), start + piece * most, 8)
