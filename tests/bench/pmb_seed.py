"""
Fill a PMB home with the memories on standard input, one per line; run by PMB's own interpreter.

Its bulk import leaves words and vectors to a queue that embeds them one by one and saves the whole
word index after each. Here words are indexed as by a single write from its command line, or with
`--embed` words and vectors as by `pmb reindex`, and saved once.
"""

import os
import sqlite3
import sys
from pathlib import Path

from pmb.core.engine import Engine

AT_ONCE = 500


def main() -> None:
    engine = Engine(pmb_home=Path(os.environ["PMB_HOME"]))
    save, engine.search._save_bm25_cache = engine.search._save_bm25_cache, lambda: None
    texts = sys.stdin.read().splitlines()
    for start in range(0, len(texts), AT_ONCE):
        some = texts[start : start + AT_ONCE]
        result = engine.record_batch_bulk([{"type": "fact", "content": text} for text in some])
        if "--embed" not in sys.argv:
            for ulid, text in zip(result["bulk_ulids"], some, strict=True):
                engine.search.add_bm25_only(ulid, text)
    if "--embed" in sys.argv:
        with sqlite3.connect(engine.workspace.db_path, timeout=60) as database:
            database.execute("DELETE FROM embed_queue_pending")
        engine._embed_queue.clear()
        engine.reindex_embeddings()
    engine.search._ensure_bm25()
    save()
    sys.stdout.flush()
    os._exit(0)  # its threads would wait for the model


main()
