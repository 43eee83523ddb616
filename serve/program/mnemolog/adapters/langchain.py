"""
MemoryRetriever: a memory as a LangChain retriever.
"""

from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from mnemolog import Client, wire


class MemoryRetriever(BaseRetriever):
    """A retriever of memories, the best first: `MemoryRetriever(client=Client(), k=5)`.

    A document's id is the memory's. Its metadata names `kind`, `project`, `at`, `trust`, `tags`,
    `source`, `confidence`, `score` and `unsure`, and has the memory's own as `metadata`. Hits that
    are only among the nearest are left out unless `unsure` is true.
    """

    client: Client
    k: int = 5
    project: str | None = None
    kinds: list[str] | None = None
    with_tags: list[str] | None = None  # `tags` are the retriever's own in LangChain
    min_confidence: float | None = None
    unsure: bool = False

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        fields: dict[str, Any] = {
            "project": self.project,
            "kinds": self.kinds,
            "tags": self.with_tags,
            "min_confidence": self.min_confidence,
            "top_k": self.k,
        }
        question = {name: value for name, value in fields.items() if value is not None}
        hits = self.client.recall(query, **question).hits
        return [_document(hit) for hit in hits if not hit.held and (self.unsure or not hit.unsure)]


def _document(hit: wire.ShownHit) -> Document:
    names = ("kind", "project", "trust", "source", "confidence", "score", "unsure", "metadata")
    about = {name: getattr(hit, name) for name in names}
    about |= {"at": hit.at.isoformat(), "tags": list(hit.tags)}
    return Document(id=hit.id, page_content=hit.text, metadata=about)
