"""
The cost of redaction in microseconds a kilobyte, and the secrets it finds in real texts.

`python tests/bench/redaction.py FOLDER [--show]` reads the text files of any folder. Each paragraph
is a text, like a memory or a message; texts with secrets are counted, `--show` prints the secrets.
"""

import argparse
import re
import time
from collections.abc import Iterator
from pathlib import Path

from store.redaction.redact import find

_PARAGRAPH = re.compile(r"\n\s*\n")
_LONGEST = 1_000_000  # bytes: a larger file was not written by hand


def paragraphs(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size <= _LONGEST:
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            yield from (part for part in _PARAGRAPH.split(text) if part.strip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", action="store_true", help="print what was found")
    args = parser.parse_args()
    texts = list(paragraphs(args.folder))
    for text in texts[:100]:
        find(text)  # compiles the patterns
    began = time.perf_counter()
    found_secrets = [(text, find(text)) for text in texts]
    took = time.perf_counter() - began
    size = sum(len(text.encode()) for text in texts) / 1_000
    alarms = [(text, secrets) for text, secrets in found_secrets if secrets]
    print(f"{len(texts):,} paragraphs, {size:,.0f} kB: {took * 1e6 / max(1, size):.1f} us a kB")
    print(f"{len(alarms)} hold a secret, {len(alarms) / max(1, len(texts)) * 10_000:.2f} in 10,000")
    for text, secrets in alarms if args.show else ():
        for secret in secrets:
            print(f"  {secret.kind}: {text[max(0, secret.start - 30) : secret.end + 10]!r:.160}")


if __name__ == "__main__":
    main()
