"""
Episodes: one turn of an agent, folded from the events of its hooks or its transcript.

A prompt begins an episode, each tool used adds a line, and the end of the turn adds the agent's
closing words. It is a memory like any other: `content` is the request, `action` the tools' work,
`result` the agent's words, `tags` the names that the edited files define; its id is that of the
prompt's event. Nothing in it was judged: it is quoted, with its date and session, and is not
binding, so its trust is that of the tools whose output it may contain.

During the turn its episode is `open` and is not recalled. An episode without a result (thanks, "go
on" without an action) stays open.
"""

import msgspec
from msgspec.structs import replace

from store.log.event_kinds import EPISODE, Acted, Prompted, SessionTold
from store.log.events import Event
from store.memories.memory import ACTIVE, ERASED, OPEN, Memory, default_importance, default_tier
from store.redaction.redact import redact
from store.text.excerpt import excerpt, one_line
from store.text.tokenizer import text_hash

MAX_DONE = 2_400  # characters of the actions
MAX_SAID = 1_600  # of the closing words
MAX_COMMAND = 200
MAX_OUTPUT = 300
MAX_FILES = 20
MAX_NAMES = 150
_TRUST = "tool"
_IDLE = ("small_talk", "command")  # intents without content of their own
_ENDS = ("stopped", "ended")  # stages
OUTCOME = " -> "  # between a command and its outcome


class Facts(msgspec.Struct, omit_defaults=True):
    """An episode's metadata."""

    branch: str | None = None
    files: tuple[str, ...] = ()  # edited
    idle: bool = False  # the prompt alone is worth no memory


_facts = msgspec.json.Decoder(Facts)


def begin_episode(event: Event, body: Prompted) -> Memory:
    """Return the episode that a prompt begins."""
    # a prompt that was not recorded has no content of its own
    facts = Facts(branch=body.branch, idle=body.intent in _IDLE or not body.prompt)
    return _with_hash(
        Memory(
            id=event.id,
            seq=event.seq,
            kind=EPISODE,
            state=OPEN,
            content=body.prompt,
            context=None,
            action=None,
            result=None,
            tags=(),
            project=event.project,
            session=event.session,
            agent=event.agent,
            trust=_TRUST,
            source=None,
            created_by=None,
            importance=default_importance(EPISODE, _TRUST, None),
            score=0.5,
            pinned=False,
            tier=default_tier(EPISODE, event.session, None, pinned=False),
            parent_id=None,
            source_ids=(),
            insight_type=None,
            job=None,
            superseded_by=None,
            key=None,
            value=None,
            chain=None,
            status=None,
            progress=None,
            created_at=event.at,
            updated_at=event.at,
            expires_at=None,
            ended_at=None,
            metadata=_encode_facts(facts),
            text_hash=b"",
        )
    )


def extend_episode(episode: Memory, event: Event) -> Memory:
    """Return an episode extended by an event of its session."""
    if episode.state not in (OPEN, ACTIVE) or episode.text_hash == ERASED:
        return episode
    match event.body:
        case Acted() as deed:
            return _add_action(episode, event, deed)
        case SessionTold(stage=stage, said=said) if stage in _ENDS:
            return close_episode(episode, said)
        case _:
            return episode


def close_episode(episode: Memory, text: str | None = None) -> Memory:
    """Return an episode whose turn is over, with the agent's last words if known."""
    if text:
        episode = _with_hash(replace(episode, result=excerpt(text, MAX_SAID)))
    if episode.state != OPEN:
        return episode
    is_idle = facts_of(episode).idle and not episode.action
    is_idle = is_idle and not (episode.result and not episode.content)
    return episode if is_idle else replace(episode, state=ACTIVE)


def facts_of(episode: Memory) -> Facts:
    """Decode an episode's metadata."""
    return _facts.decode(episode.metadata)


def _add_action(episode: Memory, event: Event, deed: Acted) -> Memory:
    lines = (episode.action or "").splitlines()
    new = [line for line in _lines(deed) if line not in lines]
    facts = facts_of(episode)
    if deed.doing == "edit" and deed.passed is not False:
        files = dict.fromkeys((*facts.files, *deed.files))
        facts.files = tuple(files)[:MAX_FILES]
    names = tuple(dict.fromkeys((*episode.tags, *deed.names)))[:MAX_NAMES]
    return _with_hash(
        replace(
            episode,
            action="\n".join(_lines_that_fit([*lines, *new])) or None,
            tags=names,
            metadata=_encode_facts(facts),
            updated_at=max(episode.updated_at, event.at),
        )
    )


def _lines(deed: Acted) -> list[str]:
    if deed.doing == "edit":
        verb = "edited" if deed.passed is not False else "could not edit"
        return [f"{verb} {path}" for path in deed.files]
    output = deed.error if deed.passed is False else deed.output
    output = one_line(output, MAX_OUTPUT) if output else ""
    if deed.doing == "run" and deed.command:
        failed = "failed" if deed.passed is False else ""
        ends = ": ".join(text for text in (failed, output) if text)
        line = f"$ {one_line(deed.command, MAX_COMMAND)}{OUTCOME if ends else ''}{ends}"
        # each alone was clean, but the output of "echo $DEPLOY_TOKEN" is a secret
        return [redact(line)]
    if deed.doing in ("read", "search") and output:
        return [f"read {', '.join(deed.files)}{OUTCOME}{output}"]
    return []


def _lines_that_fit(lines: list[str]) -> list[str]:
    """Return the lines that fit: the oldest without an outcome are dropped first."""
    size = sum(map(len, lines)) + len(lines)
    while size > MAX_DONE:
        silent = (at for at, line in enumerate(lines) if OUTCOME not in line)
        size -= len(lines.pop(next(silent, 0))) + 1
    return lines


def _encode_facts(facts: Facts) -> str:
    return msgspec.json.encode(facts).decode()


def _with_hash(episode: Memory) -> Memory:
    return replace(episode, text_hash=text_hash(episode.text))
