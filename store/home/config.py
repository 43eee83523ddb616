"""
Settings, and the only reader of the environment and of settings files.

Layers, later ones win: the defaults below, `<home>/config.toml`, the project's `.mnemolog.toml`,
`MNEMOLOG_*` variables. A project's file comes with other people's code, so it cannot set anything
that reaches another memory, and never a secret; it can only remove kinds from `record`, and a
project name that matches no remote of its repository needs the user's consent. Every folder from
the repository's root down may have one, the nearer one wins.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec.structs import replace

from store.home import projects
from store.home.errors import ConfigError, did_you_mean
from store.home.files import replace_file

DEFAULT_TENANT = "default"


# Profiles: the signals that order the candidates, and the weight of each.
#
# `wal` and `match` are those of Pali (https://github.com/pali-mem/pali) with its default weights;
# only their proportions count. `balanced` is our own: the most by which a prior may change a score.

Profile = Literal["balanced", "wal", "match"]
Weight = Annotated[float, msgspec.Meta(ge=0.0)]
Bound = Annotated[float, msgspec.Meta(ge=0.0, le=0.25)]


def _check_weights(weights: msgspec.Struct) -> None:
    """Raise ValueError, which msgspec reports with the table's name, for weights that give no
    order.
    """
    values = msgspec.structs.astuple(weights)
    if not any(values) or math.inf in values:
        raise ValueError("weights must be finite, and one at least over 0")


class Wal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    recency: Weight = 0.1
    relevance: Weight = 0.8
    importance: Weight = 0.1

    def __post_init__(self) -> None:
        _check_weights(self)


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    recency: Weight = 0.05
    relevance: Weight = 0.7
    importance: Weight = 0.1
    query_overlap: Weight = 0.1
    route_fit: Weight = 0.05

    def __post_init__(self) -> None:
        _check_weights(self)


class Balanced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The greatest share of its score that each prior may add to a memory or take; 0 is off."""

    importance: Bound = 0.025
    usefulness: Bound = 0.025


class Profiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of every profile, one settings table each: `[profiles.wal]`."""

    balanced: Balanced = Balanced()
    wal: Wal = Wal()
    match: Match = Match()

    def weights(self, profile: Profile) -> dict[str, float]:
        """Return the weight of each signal of a profile."""
        chosen: msgspec.Struct = getattr(self, profile)
        return msgspec.structs.asdict(chosen)


# the parts of a session written to the log; docs/agents.md describes each kind
RecordKind = Literal["prompts", "commands", "outputs", "words"]
RECORD_KINDS: tuple[RecordKind, ...] = get_args(RecordKind)

# the effect of a user's rule on a forbidden tool: tell the model, make the host ask its user, or
# block the tool
Enforce = Literal["advise", "ask", "deny"]
EVERYWHERE = "*"  # in a table of projects: all others

PROJECT_FILE = ".mnemolog.toml"
# settings of earlier versions: still read, without effect
REMOVED = {"layers": "no optional layer improved recall, so none is left"}
OFF = "MNEMOLOG_OFF"  # this run of an agent is not recorded
_MOST_READ = 1 << 20  # bytes; a project's file may be anybody's
_PROJECT_MAY_SET = frozenset({"project", "top_k", "min_confidence", "fusion", "profile", "record"})
_NO = frozenset({"", "0", "false", "no", "off"})


ModelUse = Literal["consolidate", "distill", "facts", "importance", "judge", "questions", "reflect"]


class Llm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The language models that jobs may call, and their limits; `[llm]` in config.toml.

    A model is named as litellm names it ("openai/gpt-5-mini", "ollama/llama3"), or is "claude-code"
    or "codex", with "/MODEL" or without: that program is called, with the user's login. A tier that
    is not set uses the next cheaper one, else the next dearer; if none is set, no model is called.
    Keys are never stored here: the provider's own variable (OPENAI_API_KEY) is read. A limit of 0
    is none. The uses in `rules_only` go by rules alone and call no model.
    """

    cheap: str = ""
    balanced: str = ""
    expensive: str = ""
    api_base: str = ""  # of a server that speaks OpenAI's protocol
    usd_a_run: Annotated[float, msgspec.Meta(ge=0.0)] = 0.50
    usd_a_day: Annotated[float, msgspec.Meta(ge=0.0)] = 2.00
    tokens_a_run: Annotated[int, msgspec.Meta(ge=0)] = 200_000
    tokens_a_day: Annotated[int, msgspec.Meta(ge=0)] = 1_000_000
    calls_a_run: Annotated[int, msgspec.Meta(ge=0)] = 200
    calls_a_day: Annotated[int, msgspec.Meta(ge=0)] = 1_000
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0, le=600.0)] = 60.0
    rules_only: tuple[ModelUse, ...] = ()

    @property
    def is_set(self) -> bool:
        return any((self.cheap, self.balanced, self.expensive))

    def may_serve(self, use: str) -> bool:
        """Return True if a model is set and may be used for a job or a command."""
        return self.is_set and use not in self.rules_only


class Qdrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Qdrant server that gets a copy of the vectors at each build; `[qdrant]` in config.toml.

    None without a `url`. If `recall` is set, recall queries it and waits `timeout_s` at most. Its
    key is never stored here: QDRANT_API_KEY is read.
    """

    url: str = ""
    recall: bool = False
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0, le=2.0)] = 0.25

    def __post_init__(self) -> None:
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(
                "`url` must begin with http:// or https://; a folder of Qdrant's local mode is not "
                "taken, as opening one runs code that its files may contain"
            )


_BOLT = tuple(f"{name}{how}://" for name in ("bolt", "neo4j") for how in ("", "+s", "+ssc"))


class Neo4j(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Neo4j server that gets a copy of the entity graph and the facts at each build; `[neo4j]` in
    config.toml.

    None without a `url`; without a `database` the server's default is used. The password is never
    stored here: NEO4J_PASSWORD is read, and without it none is sent.
    """

    url: str = ""
    user: str = "neo4j"
    database: str = ""

    def __post_init__(self) -> None:
        if self.url and not self.url.startswith(_BOLT):
            raise ValueError(f"`url` must begin with one of {', '.join(_BOLT)}")


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two configurations of recall that are tried against each other; `[trial]` in config.toml,
    which `mnemolog plans trial` writes. None without a `plan`.

    `set` holds the settings of the other configuration, as `--set` takes them.
    """

    plan: str = ""
    until: datetime | None = None
    set: tuple[str, ...] = ()

    def other_choices(self, choices: "Choices", now: int) -> "Choices | None":
        """Return the settings of the other configuration at a moment, microseconds UTC; None
        without a trial.
        """
        if not self.plan or (self.until and now >= self.until.timestamp() * 1e6):
            return None
        changes = (text.partition("=") for text in self.set)
        return change_choices(choices, {name: value for name, _, value in changes})


class Choices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's settings, with their defaults."""

    tenant: str = DEFAULT_TENANT
    project: str | None = None
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 7437
    embedder: str = "lexical"
    fusion: Literal["rrf", "weighted"] = "weighted"
    profile: Profile = "balanced"
    profiles: Profiles = Profiles()
    top_k: Annotated[int, msgspec.Meta(ge=1, le=200)] = 8
    min_confidence: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    llm: Llm = Llm()
    qdrant: Qdrant = Qdrant()
    neo4j: Neo4j = Neo4j()
    trial: Trial = Trial()
    # how often a recorded recall tries an action that the router does not rate best; 0: never
    explore: Annotated[float, msgspec.Meta(ge=0.0, le=0.5)] = 0.0
    # the share of new sessions that get no context unasked, for comparison: `mnemolog trial
    # holdout`
    holdout: Annotated[float, msgspec.Meta(ge=0.0, le=0.5)] = 0.0
    # the server starts a build once this many events are in the tail and it is idle; 0: never
    build_after: Annotated[int, msgspec.Meta(ge=0)] = 500
    # lasting statements of the user are recorded at once, as quotes
    remember_words: bool = True
    # the recorded parts of a session; none: nothing is recorded, and no context is given unasked
    record: tuple[RecordKind, ...] = RECORD_KINDS
    # the effect of a user's rule on a forbidden tool; a table sets it by project
    enforce: Enforce | dict[str, Enforce] = "advise"
    # episodes older than this are erased, memories learnt from them stay; 0: kept for ever
    episodes_days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 0
    # where the home's logs are replicated as they grow, a folder or s3://BUCKET/FOLDER
    replica: str = ""
    # whether Dagster's pages quote memories; its records are kept for weeks
    dagster_texts: bool = False
    # a server started in the background ends after this long without a request; 0: never
    idle_exit_s: Annotated[int, msgspec.Meta(ge=0)] = 7_200

    def enforcement(self, project: str) -> Enforce:
        """Return the effect of a rule in a project ("" is none) on a tool that it forbids."""
        if isinstance(self.enforce, str):
            return self.enforce
        named = (
            self.enforce[scope] for scope in projects.scope_chain(project) if scope in self.enforce
        )
        return next(named, self.enforce.get(EVERYWHERE, "advise"))

    @property
    def answers_by(self) -> str:
        """A digest of the settings that decide answers: if it is equal, so are the answers."""
        deciding = {
            name: value
            for name, value in msgspec.to_builtins(self).items()
            if name not in _DECIDING_NO_ANSWER
        }
        return sha256(msgspec.json.encode(deciding, order="deterministic")).hexdigest()[:16]


# the settings a plan may change: replaying past recalls shows their effect
PLANNED = ("embedder", "fusion", "min_confidence", "profile", "profiles", "top_k")
_DECIDING_NO_ANSWER = frozenset(
    "tenant project port llm build_after idle_exit_s record enforce episodes_days "
    "dagster_texts qdrant neo4j holdout replica".split()
)


class Settings(msgspec.Struct, frozen=True):
    """The settings of one process, and their origins."""

    home: Path
    choices: Choices = msgspec.field(default_factory=Choices)
    origin: Mapping[str, str] = {}
    # the kinds that the environment records, before a project's file removes any
    own_record: tuple[RecordKind, ...] | None = None
    # why the project named in a repository's file is ignored; "" if none is
    ignored_project: str = ""
    # a line for each unknown variable that looks like a setting
    unknown_variables: tuple[str, ...] = ()

    @property
    def removed(self) -> list[str]:
        """Return a line for each removed setting still in use: its place, and the reason."""
        return [
            f"`{name}` in {self.origin[name]} has no effect: {why}"
            for name, why in REMOVED.items()
            if name in self.origin
        ]

    @property
    def token_file(self) -> Path:
        return self.home / "token"

    @property
    def sessions_file(self) -> Path:
        return self.home / "sessions.json"

    @property
    def server_file(self) -> Path:
        return self.home / "server.json"

    @property
    def server_lock(self) -> Path:
        return self.home / "server.lock"

    @property
    def server_try(self) -> Path:
        """Exists from when a hook begins to start a server until one has come up."""
        return self.home / "server.try"

    @property
    def server_breaker(self) -> Path:
        """Exists from when a hook waited in vain until a server answers one in time."""
        return self.home / "server.breaker"

    @property
    def server_log(self) -> Path:
        return self.home / "server.log"

    @property
    def user_file(self) -> Path:
        return self.home / "config.toml"

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"

    @property
    def dagster_file(self) -> Path:
        return self.dagster_home / "ui.json"

    @property
    def dagster_lock(self) -> Path:
        return self.dagster_home / "ui.lock"


def change_choices(choices: Choices, changes: Mapping[str, str]) -> Choices:
    """Return the settings with some changed by hand; raise ConfigError naming the error.

    `profiles.wal.recency` names a key of a table.
    """
    if unknown := sorted({key.partition(".")[0] for key in changes} - _names() - REMOVED.keys()):
        hint = did_you_mean(unknown[0], _names())
        raise ConfigError(
            f"unknown setting {', '.join(unknown)}:{hint} choose from {', '.join(sorted(_names()))}"
        )
    values: dict[str, Any] = msgspec.to_builtins(choices)
    for key, value in changes.items():
        *tables, name = key.split(".")
        table = values
        for part in tables:
            if not isinstance(table.get(part), dict):
                raise ConfigError(f"unknown setting {key}: {part} is not a table")
            table = table[part]
        table[name] = _parse_text(key, value)
    try:
        return _convert(values)
    except msgspec.ValidationError as error:
        raise ConfigError(_fault("--set", values, str(error))) from error


def setting(choices: Choices, key: str) -> Any:
    """Return the value of a setting, as TOML has it; `profiles.wal.recency` is one of a table.

    Raise ConfigError for an unknown setting.
    """
    value: Any = msgspec.to_builtins(choices)
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ConfigError(f"unknown setting {key}:{did_you_mean(key, _names())}")
        value = value[part]
    return value


def _names() -> frozenset[str]:
    return frozenset(Choices.__struct_fields__)


def cache_folder() -> Path:
    """Return the folder for files that can be recreated at any time; it may not exist yet."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("mnemolog", appauthor=False))


def load(cwd: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings as seen from `cwd`; raise ConfigError naming the file and the key."""
    home = Path(environ.get("MNEMOLOG_HOME") or _data_folder()).expanduser()
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    user = _user_file(home / "config.toml")
    own = _environment(environ)
    projects, ignored = _projects(home, cwd)
    for name, values in ((str(home / "config.toml"), user), *projects, ("environment", own)):
        _check(name, values)
        merged |= values
        origin |= dict.fromkeys(values, name)
    users = (user | own).get("record", RECORD_KINDS)
    merged["record"] = _record_kinds(users, *(values for _, values in projects))
    narrowing = [name for name, values in projects if "record" in values]
    if len(merged["record"]) < len(users):
        origin["record"] = narrowing[-1]
    choices = _convert(merged)
    own_record = tuple(own["record"]) if "record" in own else None
    return Settings(home, choices, origin, own_record, ignored, _unknown_variables(environ))


def choices_in(settings: Settings, cwd: Path | None) -> Choices:
    """Return the choices as seen from another directory, or from none: not our own project's.

    Settings for recording, rules and recall are read again from `config.toml`, as they take effect
    when written. Raise ConfigError naming the file and the key.
    """
    origin = settings.origin
    merged = {
        name: value
        for name, value in msgspec.to_builtins(settings.choices).items()
        if Path(origin.get(name, "")).name != PROJECT_FILE
    }
    merged |= _user_values_now(settings)
    if settings.own_record is not None:
        merged["record"] = list(settings.own_record)
    users = merged.get("record", RECORD_KINDS)
    projects, _ = _projects(settings.home, cwd)
    for _, values in projects:
        merged |= {
            name: value for name, value in values.items() if origin.get(name) != "environment"
        }
    merged["record"] = _record_kinds(users, *(values for _, values in projects))
    return msgspec.convert(merged, Choices, strict=False)


# take effect when the user's file is written; other settings need a new process
_REFRESHED = (*PLANNED, "trial", "holdout", "replica")
_AT_ONCE = ("record", "remember_words", "enforce", *_REFRESHED)


def refresh(settings: Settings) -> Settings:
    """Return settings with the current values in `config.toml` of those that a server refreshes.

    Values from the environment or a project's file stay. Raise ConfigError naming the file and the
    key.
    """
    values = msgspec.to_builtins(settings.choices)
    for name, value in _user_values_now(settings).items():
        if name in _REFRESHED and Path(settings.origin.get(name, "")).name != PROJECT_FILE:
            values[name] = value
    return replace(settings, choices=msgspec.convert(values, Choices, strict=False))


def _user_values_now(settings: Settings) -> dict[str, Any]:
    """Return the current values in the user's file that take effect at once; empty if it has become
    unreadable: then the old values hold.
    """
    path = settings.user_file
    try:
        values = _user_file(path)
    except ConfigError as error:
        if isinstance(error.__cause__, OSError):
            return {}
        raise
    usual, current = msgspec.to_builtins(Choices()), dict[str, Any]()
    for name in _AT_ONCE:
        origin = settings.origin.get(name)
        if name in values and origin != "environment":
            _check(str(path), {name: values[name]})
            current[name] = values[name]
        elif origin == str(path) and name in _REFRESHED:
            current[name] = usual[name]  # it was set, and no longer is
    return current


def ignore_reason(home: Path, cwd: Path | None) -> str:
    """Return why a repository's project name is ignored in a directory; "" if none is."""
    return _projects(home, cwd)[1]


def project_in_files(cwd: Path) -> str | None:
    """Return the project named in the nearest file of a repository, permitted or not."""
    named = [_project_file(path).get("project") for path in project_files(cwd)]
    return next((name for name in reversed(named) if name), None)


def _projects(home: Path, cwd: Path | None) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """Return the values of the settings files for a directory, the repository's root first, each
    with its file's name, without project names that may not be used; and why the nearest such name
    is ignored.
    """
    by_file, ignored = [], ""
    for path in project_files(cwd):
        values = _project_file(path)
        if name := values.get("project"):
            ignored = ""
            if not projects.may_take_name(home, path.parent, name):
                del values["project"]
                ignored = (
                    f"{path} names the project {name!r}, which no remote of this repository "
                    "bears: that is ignored. If you want its notes here: `mnemolog project allow`"
                )
        by_file.append((str(path), values))
    return by_file, ignored


def project_files(cwd: Path | None) -> list[Path]:
    """Return the settings files for a directory, the repository's root first.

    Unreadable files are included: reading them gives the reason.
    """
    root = projects.git_root(cwd) if cwd is not None else None
    if cwd is None or root is None:
        return []
    here = cwd.absolute()
    folders = [here, *here.parents]
    within = folders[: folders.index(root) + 1]
    return [folder / PROJECT_FILE for folder in reversed(within) if _may_be(folder / PROJECT_FILE)]


def qdrant_key(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the key for a Qdrant server; None if the environment has none."""
    return environ.get("QDRANT_API_KEY") or None


def neo4j_password(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the password for a Neo4j server; None if the environment has none."""
    return environ.get("NEO4J_PASSWORD") or None


def wants_no_colour(environ: Mapping[str, str] = os.environ) -> bool:
    """Return True if the environment asks for plain text: https://no-color.org."""
    return bool(environ.get("NO_COLOR"))


def is_off(environ: Mapping[str, str] = os.environ) -> bool:
    """Return True if the environment turns off recording for this run of an agent."""
    return environ.get(OFF, "").strip().lower() not in _NO


def _may_be(path: Path) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


def _record_kinds(users: Sequence[str], *projects: Mapping[str, Any]) -> list[str]:
    """Return the kinds that the user records and no project's file removes."""
    wanted = [users, *(values["record"] for values in projects if "record" in values)]
    return [kind for kind in RECORD_KINDS if all(kind in kinds for kinds in wanted)]


def _convert(values: Mapping[str, Any]) -> Choices:
    """Return values as choices, without removed settings; raise ValidationError."""
    current = {name: value for name, value in values.items() if name not in REMOVED}
    return msgspec.convert(current, Choices, strict=False)


def _check(name: str, values: Mapping[str, Any]) -> None:
    try:
        _convert(values)
    except msgspec.ValidationError as error:
        raise ConfigError(_fault(name, values, str(error))) from error


_KINDS_OF_VALUE = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
    "object": "a table",
}


def _fault(where: str, values: Mapping[str, Any], text: str) -> str:
    """Return msgspec's error in the user's terms: the variable, or the file and the setting in it,
    then its value and the expected one.
    """
    text, _, path = text.rstrip("`").partition(" - at `$")
    place = path.removeprefix(".")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*?)`?", text):
        table: Any = getattr(Choices(), place, None) if place else Choices()
        hint = did_you_mean(unknown[1], getattr(table, "__struct_fields__", ()))
        return f"{where}: unknown setting `{'.'.join(filter(None, (place, unknown[1])))}`.{hint}"
    value: Any = values
    for key in place.split("."):
        value = value.get(key, value) if isinstance(value, Mapping) else value
    cure = re.sub(
        r"^Expected `(\w+)(?:[^\w`][^`]*)?`(, got .*)?",
        lambda match: f"use {_KINDS_OF_VALUE.get(match[1], match[1])}",
        text,
    )
    type_ = Choices.__annotations__.get(place)
    words = [
        word
        for part in (type_, *get_args(type_))
        if get_origin(part) is Literal
        for word in get_args(part)
    ]
    if words and isinstance(value, str):
        cure = f"use one of {', '.join(words)}.{did_you_mean(value, words)}"
    if where == "environment":
        cure = "a table is set in config.toml" if "a table" in cure else cure
        return f"MNEMOLOG_{place.upper()} is {value!r}: {cure}"
    is_value = "" if isinstance(value, Mapping) else f" is {value!r}"
    return f"{where}: `{place}`{is_value}: {cure}"


def keep(home: Path, values: Mapping[str, Any]) -> Path:
    """Set some values in the user's config.toml, or remove those that are None; return the file.

    `profiles.wal.recency` is a value of a table. The file's comments and order stay. Raise
    ConfigError if it is not TOML, or a value is invalid; then nothing is changed.
    """
    import tomlkit  # costs 30 ms, and few commands write settings

    path = home / "config.toml"
    try:
        _user_file(path)  # reports errors in our own words
        document = tomlkit.parse(path.read_text(encoding="utf-8") if path.is_file() else "")
        for key, value in values.items():
            _put(document, key.split("."), value)
        new: dict[str, Any] = document.unwrap()
        _convert(_with_kinds(str(path), new))
        replace_file(path.resolve(), tomlkit.dumps(document).encode())
    except msgspec.ValidationError as error:
        raise ConfigError(_fault(str(path), new, str(error))) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror})") from error
    return path


def _put(document: Any, keys: Sequence[str], value: Any) -> None:
    """Set a value of a TOML document, or remove it; a table that becomes empty goes too."""
    key, *rest = keys
    if rest:
        if key not in document and value is not None:
            document[key] = {}
        if key in document:
            _put(document[key], rest, value)
            if not document[key]:
                del document[key]
    elif value is not None:
        document[key] = value
    else:
        document.pop(key, None)


def kept_value(home: Path, key: str) -> Any:
    """Return the value of a setting in the user's config.toml; None if it is not set there."""
    value: Any = _user_file(home / "config.toml")
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _data_folder() -> str:
    import platformdirs

    return platformdirs.user_data_dir("mnemolog", appauthor=False)


def _user_file(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        if not S_ISREG(path.stat().st_mode):
            return {}
        with path.open("rb") as file:
            data = file.read(_MOST_READ + 1)
        if len(data) > _MOST_READ:
            raise ConfigError(f"{path} is over {_MOST_READ} bytes, too large for a settings file")
        return _with_kinds(str(path), tomllib.loads(data.decode()))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}): check owner, mode and disk"
        ) from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, 5,000 digits, endless lists
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _project_file(path: Path) -> dict[str, Any]:
    values = _user_file(path)
    if forbidden := sorted(values.keys() - _PROJECT_MAY_SET):
        raise ConfigError(
            f"{path} may not set {', '.join(forbidden)}: a project's file may set only "
            f"{', '.join(sorted(_PROJECT_MAY_SET))}; put the rest into your own config.toml"
        )
    _check(str(path), values)
    return values


def _environment(environ: Mapping[str, str]) -> dict[str, Any]:
    names = (*Choices.__struct_fields__, *REMOVED)
    values = {
        name: _parse_text(name, value)
        for name in names
        if (value := environ.get(f"MNEMOLOG_{name.upper()}")) is not None
    }
    return _with_kinds("environment", values)


def _unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    fields = (*Choices.__struct_fields__, *REMOVED)
    variables = {"MNEMOLOG_HOME", OFF, *(f"MNEMOLOG_{name.upper()}" for name in fields)}
    return tuple(
        f"{name} sets nothing.{did_you_mean(name, variables)}"
        for name in sorted(environ)
        if name.startswith("MNEMOLOG_") and name not in variables
    )


def _with_kinds(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return settings with `record` as a list of kinds: false is none, true is all."""
    if "record" not in values:
        return values
    record = values["record"]
    if record in (["false"], ["off"], ["none"], ["0"]):  # a variable
        record = False
    elif record in (["true"], ["on"], ["all"], ["1"]):
        record = True
    if isinstance(record, bool):
        return values | {"record": list(RECORD_KINDS) if record else []}
    kinds = ", ".join(RECORD_KINDS)
    where = "MNEMOLOG_RECORD" if name == "environment" else f"{name}: `record`"
    if not isinstance(record, list):
        raise ConfigError(f"{where} is {record!r}: use true, false, or a list of {kinds}")
    if unknown := [kind for kind in record if kind not in RECORD_KINDS]:
        hint = did_you_mean(str(unknown[0]), RECORD_KINDS)
        raise ConfigError(
            f"{where} has no kind {unknown[0]!r}: use {kinds}, or false for nothing.{hint}"
        )
    return values


def _parse_text(name: str, value: str) -> str | list[str]:
    """Return a setting's value from a variable's or option's text: a list is split at commas."""
    if not isinstance(getattr(Choices(), name, None), tuple):
        return value
    return [text for part in value.split(",") if (text := part.strip())]
