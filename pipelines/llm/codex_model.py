"""
Codex as a model: `codex exec` in a home of its own with nothing but the user's login.

No switch keeps the user's AGENTS.md out of a request, so Codex gets a temporary home. It has a link
to the user's `auth.json`, through which Codex renews a login (and takes its lock), and of the
user's settings only those that name server and model. All files that Codex writes go there. No tool
is offered: some come from the list of models, not from settings, and are removed from a copy of
that list. Seen in the real program (0.169.0): without tools, a request to some models contains the
instructions twice.

https://developers.openai.com/codex/config-reference, https://developers.openai.com/codex/auth,
https://developers.openai.com/codex/noninteractive.
"""

import functools
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import tomlkit

from pipelines.llm.program import Call, Exit
from pipelines.llm.provider import Failed, Reply, Usage

_OVERHEAD = 500  # tokens at most, beside the instructions once more
_PATIENCE_S = 20.0  # for the list of models, which takes a tenth of a second

# the user's server and model; all other settings must be ignored here
_KEPT = (
    *("model", "model_provider", "openai_base_url", "chatgpt_base_url"),
    *("forced_login_method", "forced_chatgpt_workspace_id"),
)
_OWN_SERVER = frozenset((None, "openai"))  # the server of a login
_KEYS = ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN")  # variables that `codex exec` accepts as a login
_OFF = (
    *("hooks", "plugins", "remote_plugin", "apps", "memories", "goals", "tool_suggest"),
    *("shell_tool", "unified_exec", "shell_snapshot", "view_image", "image_generation"),
    *("code_mode", "code_mode_only", "multi_agent_v2", "standalone_web_search", "browser_use"),
    *("computer_use", "request_permissions_tool", "sleep_tool", "token_budget"),
    *("daemon_auto_start", "unbounded_connection_retries"),
)

# a pattern of its messages, our description, whether to try again, and whether the cost is
# unknown
_FAILURES: tuple[tuple[re.Pattern[str], str, bool, bool], ...] = (
    (
        re.compile(r"status:? 40[13]|\blog ?in\b|logged in|sign in|access token|refresh token"),
        "not logged in, or the login was refused: run `codex login`; "
        "a key in CODEX_API_KEY comes before a login",
        False,
        False,
    ),
    (
        re.compile(r"usage limit|quota exceeded|credits", re.IGNORECASE),
        "the limit of its plan is reached",
        False,
        False,
    ),
    (re.compile(r"status:? 429"), "too many requests", True, False),
    (re.compile(r"status:? 5\d\d|high demand|at capacity"), "its server failed", True, False),
    (
        re.compile(r"Connection failed|error sending request"),
        "its server was not reached",
        True,
        False,
    ),
    (re.compile(r"stream disconnected|idle timeout"), "the connection was cut", True, True),
    (
        re.compile(r"model.{0,200}(?:does not exist|not supported|not found)", re.IGNORECASE),
        "there is no such model, or its login may not use it: name one as codex/MODEL",
        False,
        False,
    ),
)


def call(
    path: str,
    folder: Path,
    *,
    model: str,
    instructions: str,
    schema: dict[str, Any] | None,
) -> Call:
    """Return the command that runs Codex for one answer; its home is made in `folder`.

    It takes no limit for an answer. Raise Failed where its user is not logged in, or Codex does not
    list its models.
    """
    users = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    settings = _settings(users / "config.toml", model)
    home = folder / "home"
    home.mkdir()
    _link_login(users, home, settings)
    environ = {name: value for name, value in os.environ.items() if name != "CODEX_SQLITE_HOME"}
    environ["CODEX_HOME"] = str(home)
    (home / "instructions.md").write_text(instructions, encoding="utf-8")
    (home / "models.json").write_text(_models(path), encoding="utf-8")
    settings["model_instructions_file"] = str(home / "instructions.md")
    settings["model_catalog_json"] = str(home / "models.json")
    (home / "config.toml").write_text(tomlkit.dumps(settings | _RESTRICTIONS), encoding="utf-8")
    words = [path, "exec", "--json", "--ephemeral", "--skip-git-repo-check"]
    if schema is not None:
        (folder / "schema.json").write_text(json.dumps(schema["schema"]), encoding="utf-8")
        words += ["--output-schema", str(folder / "schema.json")]
    return Call((*words, "-"), environ)


def _settings(file: Path, model: str) -> dict[str, Any]:
    """Return the user's server and model, and `model` instead if it is named."""
    try:
        users = tomlkit.parse(file.read_text(encoding="utf-8")).unwrap() if file.is_file() else {}
    except (OSError, ValueError) as error:
        raise Failed(f"codex: {file} cannot be read ({type(error).__name__}): mend it") from None
    settings = {name: users[name] for name in _KEPT if name in users}
    if model:
        settings["model"] = model
    servers = users.get("model_providers")
    chosen = settings.get("model_provider")
    if isinstance(servers, dict) and chosen in servers:
        settings["model_providers"] = {chosen: servers[chosen]}
    return settings


def _link_login(users: Path, home: Path, settings: dict[str, Any]) -> None:
    login = users / "auth.json"
    if login.is_file():
        try:
            (home / "auth.json").symlink_to(login.absolute())
        except OSError as error:
            raise Failed(f"codex: {login} cannot be linked to ({error.strerror})") from None
    elif settings.get("model_provider") in _OWN_SERVER and not any(map(os.environ.get, _KEYS)):
        raise Failed(
            f"codex: not logged in: there is no {login}: run `codex login`; a login in the "
            'system\'s keyring is not found: set cli_auth_credentials_store = "file" before'
        )


@functools.cache
def _models(path: str) -> str:
    """Return Codex's own list of models as JSON, without the tools that it names."""
    with tempfile.TemporaryDirectory(prefix="mnemolog-") as home:
        try:
            listing = subprocess.run(
                [path, "debug", "models", "--bundled"],
                env=os.environ | {"CODEX_HOME": home},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE_S,
                check=False,
            )
            catalog = json.loads(listing.stdout)
            for model in catalog["models"]:
                model |= {"experimental_supported_tools": [], "apply_patch_tool_type": None}
                model.pop("tool_mode", None)
        except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired):
            raise Failed("codex: it does not list its models: update Codex") from None
        return json.dumps(catalog)


# they turn an agent into a plain model
_RESTRICTIONS = {
    "model_reasoning_effort": "low",
    "project_doc_max_bytes": 0,
    "include_permissions_instructions": False,
    "include_environment_context": False,
    "include_apps_instructions": False,
    "include_collaboration_mode_instructions": False,
    "web_search": "disabled",
    "approval_policy": "never",
    "sandbox_mode": "read-only",
    "cli_auth_credentials_store": "file",
    "check_for_update_on_startup": False,
    "analytics": {"enabled": False},
    "history": {"persistence": "none"},
    "skills": {"include_instructions": False, "bundled": {"enabled": False}},
    "agents": {"enabled": False},
    "tools": {
        "experimental_request_user_input": {"enabled": False},
        "update_plan": {"enabled": False},
    },
    "features": dict.fromkeys(_OFF, False),
}


def overhead(instructions: str) -> int:
    """Return the maximum number of tokens that Codex adds to a request."""
    return _OVERHEAD + len(instructions.encode(errors="replace"))


def reply(model: str, end: Exit) -> Reply:
    """Return the answer of a run; raise Failed, without a word of the prompt in it."""
    events = end.events
    texts = [
        str(item.get("text", ""))
        for event in events
        if event.get("type") == "item.completed"
        and isinstance(item := event.get("item"), dict)
        and item.get("type") == "agent_message"
    ]
    text = texts[-1] if texts else ""
    last = next(
        (
            event
            for event in reversed(events)
            if event.get("type") in ("turn.completed", "turn.failed")
        ),
        None,
    )
    if last is None and end.code and not events:
        raise Failed(f"{model}: this Codex does not take what is asked of it: update Codex")
    if last is None:
        raise Failed(f"{model}: ended with code {end.code} and no answer", is_unsure=True)
    if last["type"] == "turn.completed":
        counts = last.get("usage")  # Codex names no price
        usage = Usage(_count(counts, "input_tokens"), _count(counts, "output_tokens"))
        return Reply(text, usage, is_cut=False)
    error = last.get("error")
    words = str(error.get("message", "")) if isinstance(error, dict) else ""
    if words.startswith("Incomplete response"):
        return Reply(text, Usage(0, 0), is_cut=True)  # its usage is not reported
    for form, why, is_worth_repeating, is_unsure in _FAILURES:
        if form.search(words):
            raise Failed(
                f"{model}: {why}", is_worth_repeating=is_worth_repeating, is_unsure=is_unsure
            )
    raise Failed(f"{model}: the request was refused", is_refused=True)


def _count(counts: object, name: str) -> int:
    value = counts.get(name) if isinstance(counts, dict) else None
    return max(0, value) if isinstance(value, int) else 0
