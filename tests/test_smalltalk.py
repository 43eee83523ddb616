"""What only talks to the agent, and what asks the memory."""

import pytest

from serve.query.smalltalk import MAX_WORDS, is_smalltalk

TALK = """
continue
ok do it
Thanks!
thank you very much, that works
yes, go ahead
Hello there :)
run the tests
Please run the tests again.
can you rerun the failed tests?
fix it
commit and push
what's next?
show me the previous error
Hallo
danke, das passt so
¡Hola!
gracias, muy bien
merci, c'est parfait
obrigada
grazie mille
спасибо, продолжай
谢谢
好的，继续
ありがとうございます
감사합니다
شكرا
""".strip().splitlines()

QUESTIONS = """
why did the login test fail?
where do we deploy?
how do I run the tests
run tests/test_login.py
deploy it
tests
build
pool_size
fix loginHandler
open `notes`
thanks, and what about the rate limit?
what did Caroline say?
wer prüft die Rechnung?
计划是什么
在庫同期
""".strip().splitlines()


@pytest.mark.parametrize("prompt", TALK)
def test_talk_asks_for_no_memory(prompt: str):
    assert is_smalltalk(prompt)


@pytest.mark.parametrize("prompt", [*QUESTIONS, "", "?!", "🙂"])
def test_what_names_something_is_a_question(prompt: str):
    assert not is_smalltalk(prompt)


def test_a_long_prompt_is_never_small_talk():
    assert is_smalltalk("ok " * MAX_WORDS)
    assert not is_smalltalk("ok " * (MAX_WORDS + 1))
    assert not is_smalltalk("好" * 201)
