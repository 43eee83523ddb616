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
thx a lot!
sounds good, let's do it
great work
ok cool
makes sense
got it
yes please
no thanks
that's perfect
never mind
good morning!
how are you?
who are you?
are you there?
what can you do?
try again
do that again
please continue
keep going
go on
undo that
commit this
push it
run the build
fix the lint errors
explain this
summarize what you did
explain that in simpler terms
why did you do that?
can you fix that
show me the diff
open the file
looks good to me
lgtm, merge it
that didn't work
it works now
wait
stop
yep do that
option 2
the second one
yes, the second one please
1
2.
y
n
Danke, das war's
super, danke dir
mach weiter bitte
führ die Tests aus
ja genau
nein, danke
guten Morgen
wie geht's?
merci, c'est super
continue s'il te plaît
d'accord, vas-y
lance les tests
bonjour, ça va ?
gracias, funciona
sí, continúa por favor
ejecuta las pruebas
de acuerdo
¿qué tal?
obrigado, perfeito
pode continuar
bom dia
executa os testes
grazie, va bene così
esegui i test
avanti
ja graag
dziękuję, kontynuuj
tak, proszę
uruchom testy
teşekkürler, devam et
günaydın
testleri çalıştır
спасибо, всё работает
запусти тесты
да, сделай это
продолжай пожалуйста
谢谢你，继续吧
运行测试
早上好
ありがとう、続けてください
テストを実行して
おはようございます
네, 계속해 주세요
테스트 실행해줘
شكرا جزيلا
أكمل من فضلك
धन्यवाद, जारी रखें
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
continue the migration to Postgres
run the migration
fix the login bug
explain the cache
deploy
deploy to staging
release it
what did Anna say?
where were we with the importer?
what did we do yesterday?
what did we decide
which port
what is the port
commit style
how do we name branches?
should I use tabs
show the retry policy
good names for tests
add a test for the parser
write the changelog entry
open issues
why is the build slow
what failed last week
what are the rules here?
what do I like?
who am I
my name?
do you remember me?
what do you know about me
delete the branch
rename the flag to dry
merge conflicts
tests in CI
build time
the first release
push notifications
pull policy
git hooks
what version do we use
which tests are flaky
last error in production
wie heißt der Branch
was haben wir beschlossen
où est le serveur
qui est Anna
qué puerto usamos
какой порт
数据库迁移
どのポート
포트 번호
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
