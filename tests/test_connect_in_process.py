"""The plugins that OpenCode and Amp load, run by Node with a client of ours."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hosts_home import install
from msgspec.structs import replace

from serve.hosts.host import plugin_file

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


PLACED = """
const { Mnemolog } = await import(process.argv[2])
const hooks = await Mnemolog({ directory: "/srv/web" })
const session = { sessionID: "s1" }
const parts = [{ type: "text", text: "where do we deploy?" }]
await hooks["chat.message"](session, { message: { id: "m1" }, parts })
const call = { ...session, tool: "bash", callID: "c1" }
const stored = [{ info: { ...session, id: "m1", role: "user" }, parts }]
const request = async () => {
  const messages = [...stored]
  await hooks["experimental.chat.messages.transform"]({}, { messages })
  return messages
}
const first = await request()
await hooks["tool.execute.before"](call, { args: { command: "npm i" } })
const state = { status: "completed", output: "added" }
const used = [{ type: "tool", callID: "c1", state }]
stored.push({ info: { ...session, id: "m2", role: "assistant" }, parts: used })
const second = await request()
stored.push({ info: { ...session, id: "m3", role: "user" }, parts: [] })
const third = await request()
stored.splice(0, 2)
const shortened = [await request(), await request()]
const asked = { system: [] }
await hooks["experimental.chat.system.transform"](session, asked)
console.log(JSON.stringify({ first, second, third, shortened, asked, parts, state }))
"""


SUBAGENT = """
const { Mnemolog } = await import(process.argv[2])
const parents = { s2: "s1", s3: "s2" }
const get = async ({ path }) => ({ data: { parentID: parents[path.id] } })
const hooks = await Mnemolog({ client: { session: { get } }, directory: "/srv/web" })
const parts = [{ type: "text", text: "where do we deploy?" }]
for (const sessionID of ["s1", "s2", "s3"]) await hooks["chat.message"]({ sessionID }, { parts })
const call = { sessionID: "s3", tool: "bash", callID: "c1" }
await hooks["tool.execute.before"](call, { args: { command: "npm i" } })
await hooks["tool.execute.after"](call, { content: [{ type: "text", text: "added" }] })
const used = [{ type: "tool", callID: "c1", state: { status: "completed", output: "added" } }]
const messages = [
  { info: { sessionID: "s3", id: "m1", role: "user" }, parts },
  { info: { sessionID: "s3", id: "m2", role: "assistant" }, parts: used },
]
await hooks["experimental.chat.messages.transform"]({}, { messages })
for (const [sessionID, text] of [["s3", "of it"], ["s1", "first"], ["s1", "To the web."]]) {
  await hooks["experimental.text.complete"]({ sessionID }, { text })
}
for (const sessionID of ["s3", "s1", "s1"]) {
  await hooks.event({ event: { type: "session.idle", properties: { sessionID } } })
}
await hooks.dispose()
console.log(JSON.stringify(messages))
"""


AMP = """
const plugin = await import(process.argv[2])
const handlers = {}
plugin.default({
  system: { workspaceRoot: new URL("file:///srv/my%20web") },
  on: (event, handler) => (handlers[event] = handler),
})
const thread = { id: "T-1" }
const asked = { thread, id: "M-1", message: "where do we deploy?" }
const prompt = await handlers["agent.start"](asked)
const used = { thread, toolUseID: "u", tool: "Bash", input: { cmd: "npm i" }, status: "done" }
const text = await handlers["tool.result"]({ ...used, output: "added" })
const object = await handlers["tool.result"]({ ...used, output: { output: "no", exitCode: 1 } })
const image = await handlers["tool.result"]({ ...used, output: [{ type: "image" }] })
await handlers["tool.result"]({ ...used, status: "error", error: "it broke" })
const next = await handlers["agent.start"]({ ...asked, id: "M-2" })
const said = { role: "assistant", content: [{ type: "text", text: "To the web." }] }
await handlers["agent.end"]({ ...asked, status: "done", messages: [{ role: "user" }, said] })
const called = Object.keys(handlers)
console.log(JSON.stringify({ prompt, text, object, image, next, called }))
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run a plugin as its host would; return the context added for the model, and the events."""

    def with_client(client: str, host: str = HOST, name: str = "opencode"):
        (tmp_path / "anna").mkdir()
        made = install(tmp_path / "anna")
        (made.code / "client.py").write_text(client)
        made = replace(made, python=sys.executable)
        (tmp_path / "plugin.mjs").write_text(plugin_file(tmp_path, name, made).content)
        (tmp_path / "host.mjs").write_text(host)
        command = ["node", str(tmp_path / "host.mjs"), str(tmp_path / "plugin.mjs")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        heard = made.code / "heard"
        lines = heard.read_text().splitlines() if heard.exists() else []
        return json.loads(result.stdout), [json.loads(line) for line in lines]

    return with_client


def test_opencode_is_told_what_the_client_says_until_it_compacts(run):
    told, heard = run(CLIENT)
    assert told["asked"] == {"system": ["theirs", "a note", "a rule"]}
    assert told["after"] == {"system": ["a note", "a rule"]}  # and the next turn's requests
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


def test_notes_stand_where_they_were_told_so_that_the_cache_of_a_request_stays_valid(run):
    told, _ = run(CLIENT, PLACED)
    first, second, third = told["first"], told["second"], told["third"]
    assert [part["text"] for part in first[0]["parts"]] == ["where do we deploy?", "a note"]
    assert second[0] == third[0] == first[0] and second[1] == third[1]
    assert second[1]["parts"][0]["state"]["output"] == "added\n\na rule"
    assert third[2]["parts"] == [] and told["asked"] == {"system": []}
    # the parts stored by OpenCode are unchanged
    assert len(told["parts"]) == 1 and told["state"]["output"] == "added"


def test_a_note_whose_message_is_gone_stands_at_the_last_prompt(run):
    told, _ = run(CLIENT, PLACED)
    once, again = told["shortened"]
    assert [part["text"] for part in once[0]["parts"]] == ["a note", "a rule"] and once == again


def test_opencodes_subagents_are_no_sessions_and_what_they_do_belongs_to_the_one_they_work_for(run):
    (asked, used), heard = run(CLIENT, SUBAGENT)
    names = [
        (event["hook_event_name"], event["session_id"], event.get("agent_id")) for event in heard
    ]
    assert names == [
        *(("SessionStart", "s1", None), ("UserPromptSubmit", "s1", None)),
        *(("PreToolUse", "s1", "s3"), ("PostToolUse", "s1", "s3")),
        *(("Stop", "s1", None), ("Stop", "s1", None), ("SessionEnd", "s1", None)),
    ]
    assert heard[3]["tool_response"] == {"isError": False}
    assert [event.get("last_assistant_message") for event in heard[4:6]] == ["To the web.", None]
    # the note goes with the subagent's tool
    assert used["parts"][0]["state"]["output"] == "added\n\na rule" and len(asked["parts"]) == 1


def test_amp_is_told_beside_the_prompt_and_the_tools_result(run):
    told, heard = run(CLIENT, AMP, "amp")
    assert told["prompt"] == {"message": {"content": "a note", "display": False}}
    assert told["text"] == {"status": "done", "output": "added\n\na rule"}
    assert told["object"]["output"] == {"output": "no\n\na rule", "exitCode": 1}
    assert "image" not in told  # a note without a place is given with the next prompt
    assert told["next"]["message"]["content"] == "a rule\n\na rule\n\na note"
    assert "tool.call" not in told["called"]  # its answer could overrule the user's permissions
    names = [event["hook_event_name"] for event in heard]
    assert names[:4] == ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"]
    assert names[-4:] == ["PreToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop"]
    assert {(event["session_id"], event["cwd"]) for event in heard} == {("T-1", "/srv/my web")}
    assert heard[1]["prompt"] == "where do we deploy?"
    assert heard[-1]["last_assistant_message"] == "To the web."


@pytest.mark.parametrize("client", ["raise SystemExit(1)", "print('no JSON')", "print('null')"])
def test_amp_goes_on_when_the_client_fails(run, client: str):
    told, _ = run(client, AMP, "amp")
    assert told == {"prompt": {}, "next": {}, "called": told["called"]}
