"""Mutual TLS in front of the server: a real nginx with the shipped file, over loopback."""

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest
from background import served
from cryptography import x509
from flask import Flask, Response
from mnemolog import Client
from test_docs import ROOT
from test_server import Server, until

from serve.server.request_guard import MAX_BODY
from store.home import tenant as tenants
from store.home import tokens
from store.home.tokens import Wanted
from store.log.event_log import EventLog

NAME = "memory.example"
CONFIGURATION = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
NGINX = shutil.which("nginx", path=os.pathsep.join((os.environ["PATH"], "/usr/sbin")))

pytestmark = pytest.mark.skipif(
    NGINX is None or shutil.which("openssl") is None, reason="nginx or openssl is not installed"
)


@dataclass(frozen=True)
class Front:
    """An nginx in front of a server, with the certificates and the token of a client."""

    server: Server
    port: int
    folder: Path  # with the certificates
    token: str  # of the tenant `team`

    def tls(self, client: str | None = "client") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        if client is not None:
            context.load_cert_chain(self.folder / f"{client}.crt", self.folder / f"{client}.key")
        return context

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        client: str | None = "client",
        **headers: str,
    ) -> tuple[int, dict[str, str], str]:
        """Return the status, the header fields by lower-case name and the text of a response; a
        body that is a string is sent as a form.
        """
        connection = http.client.HTTPSConnection(
            NAME, self.port, timeout=30, context=self.tls(client)
        )
        kind = "application/json"
        if isinstance(body, str):
            kind = "application/x-www-form-urlencoded"
        elif body is not None:
            body = json.dumps(body)
        sent = {"Content-Type": kind} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, fields, answer.read().decode()
        finally:
            connection.close()

    def bearer(self, token: str | None = None) -> dict[str, str]:
        return {"Authorization": f"Bearer {token or self.token}"}


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[int]:
    """Run nginx with our file, its paths moved into a folder; yield the port it listens on.

    The folders of its temporary files are deleted once it runs, so that any write to them fails.
    """
    assert NGINX is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ours = CONFIGURATION
    for place, here, many in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl", 1),
        ("/etc/nginx/mnemolog", str(folder), 3),
        ("/var/log/nginx", str(folder), 1),
        ("127.0.0.1:7437", f"127.0.0.1:{upstream}", 3),
    ):
        assert ours.count(place) == many, place
        ours = ours.replace(place, here)
    (folder / "mnemolog.conf").write_text(ours)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/temporary/{kind};" for kind in kinds)
    (folder / "temporary").mkdir()
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log; "
        f"events {{}} http {{ {temporary} include {folder}/mnemolog.conf; }}"
    )
    process = subprocess.Popen([NGINX, "-p", folder, "-c", folder / "nginx.conf"])
    try:
        until(lambda: process.poll() is not None or is_listening(port))
        assert process.poll() is None, (folder / "error.log").read_text()
        shutil.rmtree(folder / "temporary")
        yield port
    finally:
        process.terminate()
        process.wait(timeout=20)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """The server and nginx, with the certificates made by the page's commands."""
    folder = tmp_path_factory.mktemp("front")
    script = re.search(r"test_nginx.py runs this -->\s+```console\n(.*?)```", PAGE, re.DOTALL)
    assert script is not None
    commands = script[1].replace("$ openssl", "openssl")
    assert commands.count("openssl") == 3
    strangers = commands.replace("ca.", "other-ca.").replace("client.", "stranger.")
    for lines in (strangers, commands):
        subprocess.run(
            ["bash", "-euc", lines], cwd=folder, check=True, capture_output=True, timeout=60
        )

    with pytest.MonkeyPatch.context() as patch:
        for name in [variable for variable in os.environ if variable.startswith("MNEMOLOG_")]:
            patch.delenv(name)
        patch.setenv("HOME", str(folder))
        home = folder / "home"
        team = tenants.tenant(home, "team")
        EventLog(team.log, create=True).close()
        scopes = Wanted(scopes=("read", "write"), name="ci")
        _, token = tokens.make(home, "team", scopes, 1)
        server = Server(home, build_after="0").ready()
    try:
        with nginx(folder, server.port) as port, pytest.MonkeyPatch.context() as patch:
            resolve = socket.getaddrinfo
            patch.setattr(
                socket,
                "getaddrinfo",
                lambda host, *rest, **named: resolve(
                    "127.0.0.1" if host == NAME else host, *rest, **named
                ),
            )
            yield Front(server, port, folder, token)
    finally:
        server.process.kill()
        server.process.wait()


def answered(server: Server) -> int:
    """Return the number of requests that a server answered before this one."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {server.token}"})
    text = connection.getresponse().read().decode()
    connection.close()
    return sum(
        int(count) for count in re.findall(r"^mnemolog_responses_total{.*} (\d+)$", text, re.M)
    )


def test_a_client_without_a_certificate_of_ours_is_refused(front: Front):
    before = answered(front.server)
    for client in (None, "stranger"):
        status, _, text = front.ask("GET", "/v1/memories", client=client, **front.bearer())
        assert status == 400 and "certificate" in text.lower()
    assert answered(front.server) == before + 1  # the first call of `answered`


def test_a_servers_certificate_is_none_of_a_client(front: Front):
    status, _, text = front.ask("GET", "/health", client="server")
    assert status == 400 and "certificate" in text.lower()


def test_only_the_authority_may_sign(front: Front):
    signs = {
        name: x509.load_pem_x509_certificate((front.folder / f"{name}.crt").read_bytes())
        .extensions.get_extension_for_class(x509.BasicConstraints)
        .value.ca
        for name in ("ca", "server", "client")
    }
    assert signs == {"ca": True, "server": False, "client": False}


def test_a_certificate_does_not_replace_a_token(front: Front):
    assert front.ask("GET", "/health")[0] == 200
    status, fields, text = front.ask("GET", "/v1/memories")
    assert (status, json.loads(text)["code"]) == (401, "no_token")
    assert fields["www-authenticate"].startswith("Bearer")
    assert front.ask("GET", "/v1/memories", **front.bearer(f"{front.token}x"))[0] == 401


def test_the_owner_token_and_machine_routes_are_not_proxied(front: Front):
    owner = front.bearer(front.server.token)
    assert front.ask("GET", "/v1/memories", **owner)[0] == 403
    assert front.ask("POST", "/v1/server/stop", {}, **owner)[0] == 403
    assert front.ask("POST", "/v1/server/stop", {}, **front.bearer())[0] == 403
    assert front.ask("GET", "/metrics", **front.bearer())[0] == 404
    assert front.ask("GET", "/v1/memories", Host="127.0.0.1", **front.bearer())[0] == 421


def test_our_client_records_and_recalls(front: Front):
    with Client(f"https://{NAME}:{front.port}", front.token, tls=front.tls()) as memory:
        recorded = memory.record("Deploys go out from eu-west-1 only", kind="decision")
        hits = memory.recall("where do deploys go out from").hits
        assert [hit.id for hit in hits] == [recorded.id]
        assert [line["id"] for line in memory.export()] == [recorded.id]  # a stream
    status, _, text = front.ask(
        "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, **front.bearer()
    )
    assert status == 200 and "recall" in {
        tool["name"] for tool in json.loads(text)["result"]["tools"]
    }


def test_responses_are_streamed_unbuffered(front: Front, tmp_path: Path):
    for name in ("ca.crt", "server.crt", "server.key"):
        shutil.copy(front.folder / name, tmp_path)
    app, is_read = Flask("stream"), threading.Event()

    @app.post("/mcp")
    def stream() -> Response:
        def events() -> Iterator[bytes]:
            yield b"data: first\n\n"
            yield b"data: last\n\n" if is_read.wait(10) else b"data: nobody read the first\n\n"

        return Response(events(), mimetype="text/event-stream")

    with served(app) as upstream, nginx(tmp_path, upstream) as port:
        connection = http.client.HTTPSConnection(NAME, port, timeout=30, context=front.tls())
        connection.request("POST", "/mcp", "{}", front.bearer())
        answer = connection.getresponse()
        assert answer.readline() == b"data: first\n"
        is_read.set()
        assert answer.read() == b"\ndata: last\n\n"
        connection.close()


def test_a_body_passes_up_to_the_servers_limit_and_touches_no_disk(front: Front):
    large = [{"content": f"note {number} " + "word " * 2_000} for number in range(300)]
    assert 2 << 20 < len(json.dumps({"memories": large})) < MAX_BODY
    status, _, text = front.ask("POST", "/v1/ingest", {"memories": large}, **front.bearer())
    assert status == 202, text
    most = re.findall(r"client_(?:max_body|body_buffer)_size +(\d+)m;", CONFIGURATION)
    assert [int(mib) << 20 for mib in most] == [MAX_BODY, MAX_BODY]
    over = {"content": "x" * MAX_BODY}
    assert front.ask("POST", "/v1/memories", over, **front.bearer())[0] == 413


class Links(HTMLParser):
    """The links of a page to its own server."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.csrf = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        if named.get("name") == "csrf":
            self.csrf = named.get("value") or ""
        address = named.get("href") or (named.get("src") if tag != "a" else None)
        if address and not address.startswith("#"):
            self.found.add(address)


def test_the_dashboard_works_with_its_links_and_forms(front: Front):
    login = front.server.ask("/v1/logins", {})[1]["path"]
    status, _, page = front.ask("GET", login)
    assert status == 200
    key = login.partition("key=")[2]
    own = {"Origin": f"https://{NAME}:{front.port}", "Sec-Fetch-Site": "same-origin"}
    form = urlencode({"key": key})
    foreign = {"Origin": "https://evil.example"}
    assert front.ask("POST", "/login", form, **foreign)[0] == 403
    status, fields, _ = front.ask("POST", "/login", form, **own)
    assert (status, fields["location"]) == (303, "/")
    assert "secure" in fields["set-cookie"].lower()
    cookie = {"Cookie": fields["set-cookie"].partition(";")[0]}

    status, fields, _ = front.ask("GET", "/", **cookie)
    while status == 303:
        assert fields["location"].startswith("/t/default/")
        status, fields, page = front.ask("GET", fields["location"], **cookie)
    assert status == 200
    links = Links(page)
    assert len(links.found) > 10 and {url[0] for url in links.found} == {"/"}
    files = {url for url in links.found if url.startswith("/static/")}
    for url in (*files, "/t/default/memories", "/t/default/jobs"):
        assert url in links.found and front.ask("GET", url, **cookie)[0] == 200, url
    assert files

    leave = urlencode({"csrf": links.csrf})
    assert front.ask("POST", "/logout", leave, **cookie, **foreign)[0] == 403
    assert front.ask("POST", "/logout", leave, **cookie, **own)[0] == 303
    assert front.ask("GET", "/", **cookie)[1]["location"] == "/login"


def test_the_access_log_has_no_query(front: Front):
    front.ask("GET", "/v1/memories?tag=confidential-tag", **front.bearer())
    written = (front.folder / "access.log").read_text()
    assert "CN=ci" in written and "/v1/memories" in written
    assert "confidential-tag" not in written and front.token not in written


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="/proc tells which address it is")
def test_the_server_behind_listens_on_loopback_only(front: Front):
    listening = {
        line.split()[1]
        for file in ("tcp", "tcp6")
        if (path := Path("/proc/net") / file).exists()
        for line in path.read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{front.server.port:04X}")
    }
    assert listening == {f"0100007F:{front.server.port:04X}"}
