"""
What the prompt hook says to prompts that deserve nothing, on a labelled set, by its own path.

`mnemolog eval DIR --keep HOME` builds the memories first; give both, and the embedder it had. A
prompt counts as injected, and a query as kept, where the hook says anything; of the queries only
those are asked for which recall alone has a right memory among its best five.
"""

import argparse
import itertools
from collections import Counter
from pathlib import Path

from serve.answers import RecallRequest, answer
from serve.evaluation import dataset, run
from serve.evaluation.dataset import Prompt, Query, Workspace
from serve.hooks import prompt
from serve.hooks.call import Call
from serve.hooks.event import HookEvent
from serve.process.tenants import OpenTenant, OpenTenants
from store.config import Choices, Settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the labelled set")
    parser.add_argument("home", type=Path, help="where `mnemolog eval --keep` built it")
    parser.add_argument("--embedder", default="lexical")
    asked = parser.parse_args()
    tenants = OpenTenants(Settings(asked.home, choices=Choices(embedder=asked.embedder)))
    prompts: Counter[str] = Counter()
    said: Counter[str] = Counter()
    sessions = map(str, itertools.count())
    for workspace in dataset.read(asked.data):
        drafts = [run._draft(workspace, memory) for memory in workspace.memories]
        tenant = tenants.get(run._tenant_name(workspace, drafts, tenants.embedder))
        for one in workspace.asked:
            if isinstance(one, Query) and not is_answerable(tenants, tenant, workspace, one):
                continue
            kind = "kept" if isinstance(one, Query) else one.kind
            prompts[kind] += 1
            block = answered(tenants, tenant, workspace, one, next(sessions))
            said[kind] += bool(block)
            if isinstance(one, Query):
                prompts["right"] += 1
                said["right"] += any(id_ in block for id_ in right(workspace, one))
    tenants.close()
    silent = [kind for kind in prompts if kind not in ("kept", "right")]
    for kind in ("kept", "right", *sorted(silent)):
        print(f"{kind:24} {said[kind] / prompts[kind]:.4f} of {prompts[kind]}")
    for name, those in (
        ("all", silent),
        ("all that is targeted", [kind for kind in silent if kind != "abstention_in_domain"]),
        ("small talk", [kind for kind in silent if kind.startswith("smalltalk")]),
        ("foreign, other topic", ["foreign", "foreign_other_topic"]),
    ):
        if count := sum(prompts[kind] for kind in those):
            print(f"{name:24} {sum(said[kind] for kind in those) / count:.4f} of {count}")


def is_answerable(
    tenants: OpenTenants, tenant: OpenTenant, workspace: Workspace, one: Query
) -> bool:
    """Return whether recall has a right memory among its best five; never for a query of a past."""
    if one.before_ts is not None:  # a hook asks of now
        return False
    request = RecallRequest(query=one.query, top_k=5, min_confidence=0.0, touch=False)
    at, choices = run._asked_at(workspace, one), tenants.settings.choices
    found, _ = answer(tenant.reader, tenants.embedder, request, choices, at)
    return not right(workspace, one).isdisjoint(hit["id"] for hit in found["hits"])


def right(workspace: Workspace, one: Query) -> set[str]:
    return {
        run._id(workspace, memory) for memory in workspace.memories if memory.id in one.relevant
    }


def answered(
    tenants: OpenTenants,
    tenant: OpenTenant,
    workspace: Workspace,
    one: Query | Prompt,
    session: str,
) -> str:
    """Return what the hook says to a prompt."""
    event = HookEvent("eval", "prompt", session, prompt=one.query)
    at = run._asked_at(workspace, one)
    call = Call(event, tenant, tenants.embedder, tenants.settings.choices, "", at)
    said = prompt.answered(call).context
    tenant.notes.waiting.clear()  # nothing of the measurement is kept
    return said


if __name__ == "__main__":
    main()
