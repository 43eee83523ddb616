"""What a prompt wants is told by its words, in a few languages; what is in doubt is work."""

import time

import pytest

from serve.query.intent import asks_for_open, corrections, intent, is_correction

PROMPTS = {
    "small_talk": [
        "thanks!",
        "ok, great",
        "danke, passt so",
        "спасибо",
        "👍",
        "...",
        "好的,谢谢",
    ],
    "command": [
        "/compact",
        "/review 12",
        "!ls -la src",
        "run the tests",
        "git status",
        "please commit this",
        "lance les tests",
    ],
    "question": [
        "where do we deploy?",
        "why did the login test fail last week",
        "can you explain how the cache is keyed?",
        "wo liegen die Migrationen?",
        "¿dónde se despliega el servicio?",
        "где лежит конфигурация сервера",
        "缓存的键是什么",
        "do we use redis anywhere?",
    ],
    "work": [
        "add a --json flag to the export command",
        "can you add a retry to the upload?",
        "fix the flaky test in tests/test_sync.py",
        "bitte baue den Export um",
        "/fix the login redirect on staging",
        "No tests run for the billing module, look into it",
        "nothing is logged when the worker restarts",
        "/usr/lib is full on the build machine",
        "deploy to staging",
    ],
    "correction": [
        "no, use pnpm",
        "No. Use the staging cluster",
        "that's wrong, the port is 7437",
        "That’s not what I asked for",
        "you forgot to update the changelog",
        "I said eu-west-1, not us-east-1",
        "nein, nimm pnpm",
        "non, utilise pnpm",
        "no, usa pnpm",
        "нет, используй pnpm",
        "不对,应该用 pnpm",
        "not like that, keep the old name",
        "actually, use the other endpoint",
        "stop it, that's the wrong branch",
        "wrong file",
    ],
}


@pytest.mark.parametrize(
    ("wanted", "prompt"), [(kind, one) for kind, those in PROMPTS.items() for one in those]
)
def test_a_prompt_is_told_by_its_words(wanted: str, prompt: str):
    assert intent(prompt) == wanted


@pytest.mark.parametrize(
    "prompt",
    [
        "no problem, go on with the export",
        "no idea why the build fails",
        "no need to touch the schema, just add the index",
        "Note that the parser must accept CRLF",
        "the answer is wrong for empty files, fix it",
        "stop the worker before the migration",
    ],
)
def test_what_only_begins_like_a_correction_is_none(prompt: str):
    assert not is_correction(prompt)


def test_a_correction_gives_the_rule_it_may_become():
    assert [rule.text for rule in corrections("no, use pnpm here")] == ["no, use pnpm here"]
    assert [rule.text for rule in corrections("Wrong: never push to main. Fix it.")] == [
        "Wrong: never push to main."
    ]
    assert corrections("that's wrong") == corrections("always use pnpm") == []


@pytest.mark.parametrize(
    "prompt",
    [
        "what's left?",
        "where were we?",
        "What are the next steps?",
        "what should we do next",
        "let's pick up where we left off",
        "what are our open goals?",
        "was ist noch offen?",
        "¿qué falta?",
        "что дальше?",
        "下一步是什么",
    ],
)
def test_asking_what_is_open_is_known(prompt: str):
    assert asks_for_open(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "where were we using redis?",
        "what is left of the comma in this line?",
        "what is the next() function for?",
        "open the goals file",
        "what's the port?",
        "add the next steps button " * 20,
    ],
)
def test_asking_for_something_else_is_not(prompt: str):
    assert not asks_for_open(prompt)


@pytest.mark.parametrize(
    "piece", ["no, ", "what is left ", "/a ", "can you ", "a", "?", " \n", "é"]
)
def test_a_hostile_prompt_takes_no_time(piece: str):
    prompt = piece * (100_000 // len(piece))
    began = time.process_time()
    intent(prompt), asks_for_open(prompt), corrections(prompt)
    assert time.process_time() - began < 0.5  # a hundred times what it takes
