"""The LangChain retriever over a live server."""

import asyncio

from langchain_core.runnables import RunnableLambda
from mnemolog import Client
from mnemolog.adapters.langchain import MemoryRetriever


def test_documents_are_what_a_recall_brings(client: Client):
    id_ = client.record(
        "Deploys go out from eu-west-1 only", kind="decision", tags=["ops"], metadata={"ticket": 7}
    ).id
    client.record("Ana likes pizza with olives")
    retriever = MemoryRetriever(client=client)
    [document] = retriever.invoke("where do deploys go out from")
    assert (document.id, document.page_content) == (id_, "Deploys go out from eu-west-1 only")
    about = document.metadata
    assert (about["kind"], about["tags"], about["metadata"]) == ("decision", ["ops"], {"ticket": 7})
    assert 0 < about["confidence"] <= 1
    assert asyncio.run(retriever.ainvoke("where do deploys go out from")) == [document]
    assert MemoryRetriever(client=client, with_tags=["food"]).invoke("deploys") == []


def test_it_is_a_part_of_a_chain(client: Client):
    client.record("Deploys go out from eu-west-1 only", project="acme/web")
    retriever = MemoryRetriever(client=client, project="acme/web", k=1, min_confidence=0.1)
    chain = retriever | RunnableLambda(
        lambda documents: [document.page_content for document in documents]
    )
    assert (
        chain.batch(["where do deploys go out from"] * 2)
        == [["Deploys go out from eu-west-1 only"]] * 2
    )


def test_what_is_only_near_is_left_out_unless_asked_for(client: Client):
    client.record("Deploys go out from eu-west-1 only")
    hits = client.recall("which horses go to the garden of the queen of Spain in winter").hits
    assert hits and all(hit.unsure for hit in hits)
    assert (
        MemoryRetriever(client=client).invoke(
            "which horses go to the garden of the queen of Spain in winter"
        )
        == []
    )
    near = MemoryRetriever(client=client, unsure=True).invoke(
        "which horses go to the garden of the queen of Spain in winter"
    )
    assert [document.id for document in near] == [hit.id for hit in hits]
