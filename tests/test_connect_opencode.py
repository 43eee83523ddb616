"""The plugin that OpenCode loads, run by Node with a client of ours."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hosts_home import install
from msgspec.structs import replace

from serve.hosts import opencode

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")

CLIENT = """
import json, pathlib, sys
event = json.load(sys.stdin)
with open(pathlib.Path(__file__).with_name("heard"), "a") as heard:
    heard.write(json.dumps(event) + "\\n")
said = {"UserPromptSubmit": "a note", "PreToolUse": "a rule"}.get(event["hook_event_name"])
if said:
    print(json.dumps({"hookSpecificOutput": {"additionalContext": said}}))
"""

HOST = """
const { Mnemolog } = await import(process.argv[2])
const hooks = await Mnemolog({ directory: "/srv/web" })
const session = { sessionID: "s1" }
const parts = [{ type: "text", text: "where do we deploy?" }, { type: "file" }]
await hooks["chat.message"](session, { parts })
const tool = { ...session, tool: "bash", callID: "c" }
await hooks["tool.execute.before"](tool, { args: { command: "npm i" } })
await hooks["tool.execute.after"](tool, { output: "ok", metadata: { exit: 0 } })
const asked = { system: ["theirs"] }
await hooks["experimental.chat.system.transform"](session, asked)
await hooks.event({ event: { type: "session.idle", properties: session } })
const after = { system: [] }
await hooks["experimental.chat.system.transform"](session, after)
await hooks.event({ event: { type: "session.compacted", properties: session } })
const compacted = { system: [] }
await hooks["experimental.chat.system.transform"](session, compacted)
await hooks.event({ event: { type: "session.deleted", properties: { info: { id: "s1" } } } })
await hooks.event({ event: { type: "file.edited", properties: {} } })
console.log(JSON.stringify({ asked, after, compacted }))
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run the plugin as OpenCode would; return what it put before the model, and what was heard."""

    def with_client(client: str) -> tuple[dict, list[dict]]:
        (tmp_path / "anna").mkdir()
        made = install(tmp_path / "anna")
        (made.code / "client.py").write_text(client)
        (tmp_path / "plugin.mjs").write_text(opencode.plugin(replace(made, python=sys.executable)))
        (tmp_path / "host.mjs").write_text(HOST)
        command = ["node", str(tmp_path / "host.mjs"), str(tmp_path / "plugin.mjs")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        heard = made.code / "heard"
        lines = heard.read_text().splitlines() if heard.exists() else []
        return json.loads(done.stdout), [json.loads(line) for line in lines]

    return with_client


def test_opencode_is_told_what_the_client_says_until_it_compacts(run):
    told, heard = run(CLIENT)
    assert told["asked"] == {"system": ["theirs", "a note", "a rule"]}
    assert told["after"] == {"system": ["a note", "a rule"]}  # the next turn's requests too
    assert told["compacted"] == {"system": []}
    assert [event["hook_event_name"] for event in heard] == [
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"),
        *("SessionStart", "SessionEnd"),
    ]
    assert {event["session_id"] for event in heard} == {"s1"}
    assert {event["cwd"] for event in heard} == {"/srv/web"}
    assert heard[1]["prompt"] == "where do we deploy?"
    assert heard[2]["tool_input"] == {"command": "npm i"}


@pytest.mark.parametrize("client", ["raise SystemExit(1)", "print('no JSON')", "print('null')"])
def test_a_client_that_fails_is_silence(run, client: str):
    told, _ = run(client)
    assert told["asked"] == {"system": ["theirs"]}
    assert told["after"] == told["compacted"] == {"system": []}
