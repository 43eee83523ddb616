"""The known memory stores: a new one needs only a line here beside its file."""

from store.importers import (
    claude_mem,
    claude_memory,
    codex_memory,
    cursor_rules,
    engram,
    letta,
    mem0,
    notes_vault,
    pali,
    pmb,
)

MEMORY_STORES = {
    store.name: store
    for store in (
        claude_memory.STORE,
        codex_memory.STORE,
        cursor_rules.STORE,
        claude_mem.STORE,
        mem0.STORE,
        *notes_vault.STORES,
        pmb.STORE,
        engram.STORE,
        pali.STORE,
        letta.STORE,
    )
}
