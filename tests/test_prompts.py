"""A prompt's intent and its lasting statements, for prompts the classifier was not fitted on."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from store.agents import prompt_classifier
from store.agents.prompt_classifier import read_intent
from store.agents.prompt_statements import find_statements

LINES = Path(__file__).parent / "data" / "prompts"

# language, prompt: lasting instructions and facts
LASTS = (
    ("en", "From now on every migration needs a rollback script next to it."),
    ("en", "We decided to drop Elasticsearch and search with Postgres alone."),
    ("en", "Never touch the vendored folder, we sync it from upstream."),
    ("en", "I prefer small pull requests, one concern each."),
    ("en", "The staging cluster lives in Frankfurt and is wiped every Sunday."),
    ("en", "no, we use pnpm in this repo, not npm"),
    ("de", "Ab jetzt bitte immer Conventional Commits verwenden."),
    ("de", "Wir haben uns gegen Kafka entschieden und nehmen NATS."),
    ("de", "Die Lohnabrechnung läuft immer am 25. des Monats."),
    ("fr", "N'utilise jamais de requêtes SQL brutes dans les contrôleurs."),
    ("fr", "On a décidé de rester sur Django 4.2 jusqu'à la fin de l'année."),
    ("es", "A partir de ahora escribe siempre los mensajes de commit en inglés."),
    ("es", "El servidor de pruebas está en el puerto 8443."),
    ("pt", "Nunca faça deploy na sexta-feira."),
    ("pt", "Decidimos usar o Redis só para cache."),
    ("it", "D'ora in poi usa sempre i dataclass congelati."),
    ("it", "Il database di produzione si trova a Milano."),
    ("nl", "Gebruik voortaan altijd pnpm in plaats van npm."),
    ("ru", "Всегда запускай линтер перед коммитом."),
    ("ru", "Мы решили хранить сессии в Redis."),
    ("zh", "以后所有接口都必须写单元测试。"),
    ("zh", "我们决定不用微服务，保持单体架构。"),
    ("ja", "今後は必ずプルリクエストにスクリーンショットを付けてください。"),
    ("ja", "本番データベースは東京リージョンにあります。"),
    ("zh", "所有对外接口的错误码都要登记到 errors.yaml。"),
    ("zh", "不要手动改生成的代码，统一用脚本生成。"),
    ("zh", "我们的灰度环境只有两台机器，内存都是 8G。"),
    ("zh", "讨论过了，报表改用 ClickHouse。"),
    ("ja", "画面の文言は必ず翻訳ファイルに置いてください。"),
    ("ja", "本番への反映は水曜の午前だけと決めています。"),
    ("ja", "うちの決済APIは月末に必ず止まります。"),
    ("ko", "에러 메시지는 반드시 번역 파일에 넣어 주세요."),
    ("ko", "배포는 수요일 오전에만 하기로 했습니다."),
    ("ko", "우리 결제 서버는 매달 말일에 점검합니다."),
)
# requests that are over once they are done
PASSES = (
    ("en", "why does the importer hang on large files?"),
    ("en", "add a dark mode toggle to the settings page"),
    ("en", "Rename the Basket class to Cart."),
    ("en", "can you look at the failing login test"),
    ("en", "thanks, that worked"),
    ("en", "what did we do last week?"),
    ("de", "Warum schlägt der Build auf Windows fehl?"),
    ("de", "Füge ein Feld für die Telefonnummer hinzu."),
    ("fr", "peux-tu corriger le test qui échoue ?"),
    ("fr", "ajoute un bouton pour exporter en CSV"),
    ("es", "¿por qué falla la prueba del carrito?"),
    ("es", "añade una columna de descuento a la factura"),
    ("pt", "corrige o erro na página de login"),
    ("pt", "como funciona a fila de e-mails?"),
    ("it", "aggiungi la paginazione all'elenco degli ordini"),
    ("it", "perché il test del carrello fallisce?"),
    ("nl", "waarom is de pagina zo traag?"),
    ("ru", "почему падает тест корзины?"),
    ("ru", "добавь поле для скидки в счёт"),
    ("zh", "为什么登录测试失败了？"),
    ("zh", "给订单列表加上分页"),
    ("ja", "なぜログインのテストが失敗するの？"),
    ("ja", "注文一覧にページングを追加して"),
    ("zh", "报表页打不开了，帮忙看下"),
    ("zh", "把错误码的颜色改成红色"),
    ("ja", "画面の文言が切れているので直して"),
    ("ja", "決済のテストがなぜ落ちるのか調べて"),
    ("ko", "에러 메시지 색을 빨간색으로 바꿔 줘"),
    ("ko", "결제 테스트가 왜 실패하는지 봐 줘"),
)
WANTED = (
    ("en", "add a retry to the mail worker", "work"),
    ("de", "baue eine Suche in die Kundenliste ein", "work"),
    ("fr", "ajoute un index sur la table des factures", "work"),
    ("zh", "修复支付回调的超时问题", "work"),
    ("en", "what is the capital of Mongolia?", "general"),
    ("en", "how do I reverse a list in python", "general"),
    ("es", "¿cuál es la diferencia entre TCP y UDP?", "general"),
    ("de", "Wie sortiere ich ein Dictionary in Python?", "general"),
    ("en", "thanks a lot!", "small_talk"),
    ("fr", "merci beaucoup !", "small_talk"),
    ("ja", "ありがとう！", "small_talk"),
    ("ru", "спасибо, отлично", "small_talk"),
    ("en", "go on", "command"),
    ("de", "mach weiter", "command"),
    ("es", "sí, adelante", "command"),
    ("en", "where did we leave off yesterday?", "recap"),
    ("de", "Was haben wir letzte Woche gemacht?", "recap"),
    ("fr", "où en étions-nous ?", "recap"),
    ("pt", "o que fizemos ontem?", "recap"),
)


def test_the_weights_are_those_of_the_lines_and_lives():
    """Run `make fit` after changing a line or a label."""
    files = [*sorted(LINES.glob("*.tsv")), LINES.parent / "lives" / "fitted.tsv"]
    lines = sha256(b"".join(path.read_bytes() for path in files))
    with np.load(prompt_classifier.WEIGHTS) as file:
        assert file["lines"].tobytes().decode() == lines.hexdigest()[:16]


def test_the_weights_are_small():
    assert prompt_classifier.WEIGHTS.stat().st_size < 1_000_000


def test_the_prompts_of_these_tests_are_no_lines():
    fitted = {
        raw.split("\t")[4].casefold()
        for path in LINES.glob("*.tsv")
        for raw in path.read_text(encoding="utf-8").splitlines()
    }
    ours = {case[1].casefold() for case in (*LASTS, *PASSES)}
    assert not ours & fitted
    assert len({language for language, *_ in LASTS}) >= 7


def lasts(prompt: str) -> float:
    return max(statement.lasts for statement in prompt_classifier.read(prompt))


def test_lasting_and_passing_prompts_are_separated_in_many_languages():
    for language in sorted({language for language, _ in LASTS}):
        standing = [lasts(prompt) for tongue, prompt in LASTS if tongue == language]
        passing = [lasts(prompt) for tongue, prompt in PASSES if tongue == language]
        right = sum(standing_chance > other for standing_chance in standing for other in passing)
        assert right >= 0.9 * len(standing) * len(passing), language


def test_lasting_prompts_become_statements():
    missed = [prompt for _, prompt in LASTS if not find_statements(prompt)]
    assert len(missed) <= 0.4 * len(LASTS), missed


def test_lasting_prompts_become_statements_in_scripts_without_spaces():
    standing = [prompt for language, prompt in LASTS if language in ("zh", "ja", "ko")]
    missed = [prompt for prompt in standing if not find_statements(prompt)]
    assert len(missed) <= 0.2 * len(standing), missed


def test_passing_prompts_do_not_become_statements():
    wrong = [prompt for _, prompt in PASSES if find_statements(prompt)]
    assert len(wrong) <= 0.05 * len(PASSES), wrong


def test_statements_are_the_users_own_sentences():
    prompt = "Please fix the footer. From now on, always run the linter before you commit. Thanks!"
    assert [statement.text for statement in find_statements(prompt)] == [
        "From now on, always run the linter before you commit."
    ]


def test_intents_are_detected_in_many_languages():
    wrong = [case for case in WANTED if read_intent(case[1]).intent != case[2]]
    assert len(wrong) <= 0.2 * len(WANTED), wrong


@pytest.mark.parametrize("prompt", [LASTS[0][1], PASSES[0][1], LASTS[-1][1]])
def test_the_same_prompt_is_read_the_same(prompt: str):
    first = (
        prompt_classifier.wants(prompt),
        prompt_classifier.read(prompt),
        prompt_classifier.corrects(prompt),
    )
    prompt_classifier._model.cache_clear()
    again = (
        prompt_classifier.wants(prompt),
        prompt_classifier.read(prompt),
        prompt_classifier.corrects(prompt),
    )
    assert first == again
    assert sum(first[0]) == pytest.approx(1.0, abs=1e-5)


def test_a_pasted_document_says_nothing_that_lasts():
    assert find_statements("Always use tabs. " * (prompt_classifier.MAX_PROMPT // 10)) == ()
