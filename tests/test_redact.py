"""
The guarantees of redaction: secrets go, everything else stays.

Samples are random and assembled from parts, so that no scanner takes this file for a leak.
"""

import random
import string
from collections.abc import Callable
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torture.secret_kinds import ALNUM, BASE32, BASE64, URLSAFE, draw
from torture.secret_kinds import HEX as LOWER_HEX

from store.redaction.labelled_secrets import NAMED
from store.redaction.redact import find, find_in_all, redact, redact_value
from store.redaction.token_patterns import ISSUED, Pattern

Sample = tuple[str, str]  # the text to insert, and the part of it that must be removed


def issued(prefix: str, alphabet: str, size: int, suffix: str = "") -> Callable[..., Sample]:
    def sample(rng: random.Random) -> Sample:
        body = draw(rng, alphabet, size)
        return prefix + body + suffix, body

    return sample


def jwt(rng: random.Random) -> Sample:
    body = draw(rng, URLSAFE, 80)
    return f"ey{'J'}{draw(rng, ALNUM, 33)}.ey{'J'}{body}.{draw(rng, URLSAFE, 43)}", body


def block(label: str, end: bool = True, newline: str = "\n") -> Callable[..., Sample]:
    def sample(rng: random.Random) -> Sample:
        lines = [draw(rng, BASE64, 64) for _ in range(12)]
        head = "-----BEGIN " + label + "-----"
        tail = [draw(rng, BASE64, 20) + "==", "-----END " + label + "-----"] if end else []
        return newline.join([head, *lines, *tail]), lines[5]

    return sample


def discord(rng: random.Random) -> Sample:
    body = draw(rng, URLSAFE, 38)
    return f"M{draw(rng, ALNUM, 25)}.{draw(rng, URLSAFE, 6)}.{body}", body


def heroku(rng: random.Random) -> Sample:
    secret = "-".join(draw(rng, LOWER_HEX, size) for size in (8, 4, 4, 4, 12))
    return "HEROKU_API_KEY=" + secret, secret


def url(rng: random.Random) -> Sample:
    secret = draw(rng, ALNUM + "!@#%^*-_+.", 14) + rng.choice(string.digits)
    return f"postgres://app:{secret}@db.internal:5432/app", secret


def dsn(rng: random.Random) -> Sample:
    secret = draw(rng, LOWER_HEX, 32)
    return f"https://{secret}@o4504.ingest.sentry.io/450", secret


def webhook(rng: random.Random) -> Sample:
    secret = draw(rng, ALNUM, 24)
    return f"https://hooks.slack.com/services/T{draw(rng, BASE32, 8)}/B0{'A' * 6}/{secret}", secret


def telegram(rng: random.Random) -> Sample:
    secret = draw(rng, URLSAFE, 33)
    return f"{draw(rng, string.digits, 10)}:A{'A'}{secret}", secret


def basic(rng: random.Random) -> Sample:
    secret = draw(rng, BASE64, 24)
    return f"Authorization: Basic {secret}==", secret


def assigned(name: str, sign: str, quote: str = "") -> Callable[..., Sample]:
    def sample(rng: random.Random) -> Sample:
        secret = draw(rng, ALNUM, 19) + rng.choice(string.digits)
        return f"{name}{sign}{quote}{secret}{quote}", secret

    return sample


KINDS: dict[str, Callable[..., Sample]] = {
    "aws access key": issued("AK" + "IA", BASE32, 16),
    "aws secret": issued("aws_secret_access_key=", BASE64, 40),
    "github p": issued("gh" + "p_", ALNUM, 36),
    "github o": issued("gh" + "o_", ALNUM, 36),
    "github u": issued("gh" + "u_", ALNUM, 36),
    "github s": issued("gh" + "s_", ALNUM, 36),
    "github r": issued("gh" + "r_", ALNUM, 76),
    "github pat": issued("github" + "_pat_", ALNUM + "_", 82),
    "gitlab": issued("gl" + "pat-", URLSAFE, 20),
    "openai": issued("s" + "k-", ALNUM, 48),
    "openai project": issued("s" + "k-proj-", URLSAFE, 120),
    "anthropic": issued("s" + "k-ant-api03-", URLSAFE, 93, "AA"),
    "openrouter": issued("s" + "k-or-v1-", LOWER_HEX, 64),
    "slack": issued("xo" + "xb-", string.digits, 12, "-A1b2C3d4E5f6G7h8I9j0K1l2"),
    "slack webhook": webhook,
    "stripe live": issued("sk" + "_live_", ALNUM, 24),
    "stripe restricted": issued("rk" + "_live_", ALNUM, 24),
    "stripe test": issued("sk" + "_test_", ALNUM, 24),
    "google": issued("AI" + "za", URLSAFE, 35),
    "gcp service account": block("PRIVATE KEY", newline="\\n"),
    "twilio": issued("S" + "K", LOWER_HEX, 32),
    "sendgrid": issued("S" + "G.abcdefghijklmnopqrst12.", URLSAFE, 43),
    "mailgun": issued("ke" + "y-", LOWER_HEX, 32),
    "npm": issued("np" + "m_", ALNUM, 36),
    "pypi": issued("py" + "pi-AgEIcHlwaS5vcmc", URLSAFE, 150),
    "hugging face": issued("h" + "f_", ALNUM, 34),
    "digitalocean": issued("do" + "p_v1_", LOWER_HEX, 64),
    "heroku": heroku,
    "azure storage": issued("Account" + "Key=", BASE64, 86, "=="),
    "azure sas": issued("?sv=2022-11-02&s" + "ig=", ALNUM, 43, "%3D"),
    "jwt": jwt,
    "pem": block("RSA PRIVATE KEY"),
    "pem cut short": block("EC PRIVATE KEY", end=False),
    "pem escaped twice": block("PRIVATE KEY", end=False, newline="\\\\n"),
    "ssh": block("OPENSSH PRIVATE KEY"),
    "pgp": block("PGP PRIVATE KEY BLOCK"),
    "url password": url,
    "bearer": issued("Authorization: Bearer ", URLSAFE, 40),
    "basic": basic,
    "password quoted": assigned("password", " = ", '"'),
    "password plain": assigned("db_password", ": "),
    "api key": assigned("api_key", ": "),
    "export": assigned("export FOO_TOKEN", "="),
    "client secret": assigned("clientSecret", ": ", "'"),
    "flag": assigned("login --token", " "),
    "telegram": telegram,
    "discord": discord,
    "linear": issued("lin" + "_api_", ALNUM, 40),
    "notion old": issued("secr" + "et_", ALNUM, 43),
    "notion": issued("nt" + "n_", ALNUM, 46),
    "vault": issued("hv" + "s.", URLSAFE, 90),
    "databricks": issued("da" + "pi", LOWER_HEX, 32),
    "shopify": issued("sh" + "pat_", LOWER_HEX, 32),
    "age": issued("AGE-SECRET" + "-KEY-1", BASE32, 58),
    "supabase": issued("sb" + "p_", LOWER_HEX, 40),
    "groq": issued("gs" + "k_", ALNUM, 52),
    "replicate": issued("r" + "8_", ALNUM, 37),
    "cloudflare": issued("CLOUDFLARE_API_TOKEN=", URLSAFE, 40),
    "sentry": dsn,
}

CONTEXTS = (
    "{}",
    "I pasted {} into the console by mistake.",
    "The one we used was {}",
    "FOO={}",
    "export SETTING={}\nexport OTHER=1",
    '{{"value": "{}", "n": 1}}',
    '{{\\"value\\": \\"{}\\"}}',
    "setting: {}\nother: 1",
    'setting: "{}"',
    'client = Client("{}")',
    "call(x, '{}', timeout=3)",
    "curl -H 'X-Thing: {}' https://api.internal/v1",
    "2026-08-01T12:00:00Z ERROR request failed: {} (retry 3)",
    "https://api.internal/v1?x={}",
    "Use `{}` here.",
    "```\n{}\n```",
    "<value>{}</value>",
    "- {}\n- second",
    "> quoted: {}",
    "first line\\n{}\\nlast line",
)


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_of_every_kind_are_taken_out_in_every_context(kind: str):
    rng = random.Random(kind)
    missed = []
    for context in CONTEXTS * 3:
        sample, core = KINDS[kind](rng)
        text = context.format(sample)
        if core in redact(text):
            missed.append(text)
    assert len(missed) <= 0.02 * 3 * len(CONTEXTS), missed


ORDINARY = (
    "commit 3f2a9c81b0d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8 fixes the build",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "integrity sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeo",
    "request 550e8400-e29b-41d4-a716-446655440000 timed out",
    "event 01ARZ3NDEKTSV4RRFFQ69G5FAV was appended",
    "<img src='data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAH",
    'password = os.environ["DB_PASSWORD_1"]',
    "password = os.environ.get('X1')",
    "token: str",
    "def login(password: str, token: str | None = None) -> Session:",
    "API_KEY=<your key>",
    "api_key = settings.openai_api_key2",
    "API_KEY=your-api-key-here-123",
    "password: changeme",
    "password: changeme123",
    "password=${DB_PASSWORD}",
    "password: {{ vault_db_password }}",
    "password: ********",
    "token: xxxxxxxxxxxx",
    "token: <redacted>",
    "password=None",
    '"password": null',
    "secret: true",
    "password: string",
    "postgres://user:password@localhost:5432/db",
    "postgres://postgres:postgres@localhost/db",
    "postgres://user:${PGPASSWORD}@host/db",
    "https://github.com/org/repo/blob/main/src/token_bucket.py#L10-L20",
    "git@github.com:org/repo.git and ssh://git@host:22/repo",
    "max_tokens: 128000, top_p=0.95",
    "The token is refreshed every 15 minutes; the key: value pairs are kept in Redis.",
    "fix(auth): password hashing uses argon2id instead of bcrypt",
    "password hash: argon2id$v=19 is the scheme",
    "PWD=/home/dev/project1",
    "primary_key: user_id_2, foreign_key=account_id",
    "cache key: user:42:profile",
    "Authorization: Bearer <token>",
    'headers = {"Authorization": f"Bearer {token}"}',
    "Authorization: Bearer $GITHUB_TOKEN",
    "docker run -u 1000:1000 image",
    "files with -----BEGIN RSA PRIVATE KEY----- are refused",
    "task-scheduling-with-priorities-v2 and sk-learn-compatible-estimators",
    "npm_config_registry=https://registry.npmjs.org",
    "secretKeyRef:\n  name: app-secret-2\n  key: password",
    "token = next_token(stream)",
    "token = self.tokens[0]",
    "const apiKey = process.env.API_KEY_2",
    "The password is at least 12 characters long",
    "ghp_" + "x" * 36,
    "The keyboard shortcut: Ctrl+Shift+P opens it",
    "author: Jane Doe <jane@example.com> authored: 2024-01-15T10:00:00Z",
    "passed: 1204 tests, bypass=false",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  file.bin",
    "UPSTREAM_TOKEN_URL=https://auth.internal/oauth2/token",
    "tokenizer: bert-base-uncased-v2",
    "secret_name = 'prod/app/db-2'",
)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_comes_back_as_the_same_object(text: str):
    assert redact(text) is text


def test_only_the_password_of_a_url_is_taken_out():
    text = redact("redis://cache:Xk29dkLq0z@redis.internal:6379/0")
    assert text.startswith("redis://cache:[redacted:url-password:")
    assert text.endswith("@redis.internal:6379/0")


def test_the_shortest_key_block_is_taken_out():
    body = draw(random.Random(4), BASE64, 64)
    text = "-----BEGIN " + f"PRIVATE KEY-----\n{body}\n-----END " + "PRIVATE KEY-----"
    assert redact(text).startswith("[redacted:private-key:")


def test_the_same_secret_keeps_the_same_mark():
    sample, _ = KINDS["github p"](random.Random(1))
    first, second = redact(f"{sample} {sample}").split()
    assert first == second
    assert first.startswith("[redacted:github-token:")


def test_found_secrets_are_in_order_and_apart():
    rng = random.Random(2)
    secrets = find(" ".join(KINDS[kind](rng)[0] for kind in KINDS))
    assert len(secrets) >= len(KINDS) - 2
    assert all(a.end <= b.start for a, b in pairwise(secrets))


def test_values_under_a_secret_name_go_whole():
    value = redact_value({"db": [{"clientSecret": "plainletters", "name": "app"}], "n": 1})
    assert isinstance(value, dict)
    text = str(value)
    assert "plainletters" not in text
    assert "app" in text
    assert value["n"] == 1


def test_placeholders_and_short_values_under_a_secret_name_stay():
    value = {"password": "${DB}", "token": "abc", "api_key": "<your key>", "secret": None}
    assert redact_value(value) == value


@pytest.mark.parametrize("split", ["\u200b", "\u00ad", "\u2060\ufeff", "=\n", "=\r\n", "\\\n"])
def test_a_secret_that_is_split_goes_whole(split: str):
    sample, core = KINDS["github p"](random.Random(7))
    halves = core[:20], core[20:]
    text = redact(f"the old {sample.replace(core, split.join(halves))}, rotated")
    assert text.startswith("the old [redacted:github-token:") and text.endswith("], rotated")


def test_a_secret_that_a_terminal_wrapped_goes_whole_and_no_word_with_it():
    sample, _ = KINDS["github p"](random.Random(8))
    line = "pasted from a terminal that is as wide as this line is long: "
    wrapped = redact(f"{line}{sample[:20]}\n{sample[20:]} was it")
    assert wrapped.startswith(f"{line}[redacted:github-token:") and wrapped.endswith("] was it")
    assert redact(f"{line}{sample}\nThen it was rotated").endswith("]\nThen it was rotated")


@pytest.mark.parametrize(
    "template",
    [
        "mysql -h db.internal -u root -p{} shop",
        "mysqldump --single-transaction -uroot -p'{}' shop > shop.sql",
        "sshpass -p {} ssh root@host",
        "curl -s -u deploy:{} https://api.internal",
        "DB_PASSWORD={}",
        'db_password: "{}"',
        "contraseña: {}",
        "Mot de passe : {}",
        "пароль: {}",
        "密码：{}",
        "- name: DB_PASSWORD\n  value: {}",
        '{{"name": "DB_PASSWORD", "value": "{}"}}',
        "**password**: `{}`",
    ],
)
def test_redacts_alphabetic_password_after_password_keyword(template: str):
    secret = "purplewindow" + "monday"
    assert secret not in redact(template.format(secret))


@pytest.mark.parametrize(
    "text",
    [
        "mysql -P 3306 -p shop",
        "mysqld_safe --port=3307 --user=mysql -p3307",
        "curl -u $USER:$TOKEN https://api.internal",
        "| password | string | yes |",
        "the password is required and the token is optional",
        "password = userCredentialsProvider",
        "a soft\u00adhyphen and a fam\u200dily",
        "contraseña: obligatoria",
        "| token | description of the field |",
    ],
)
def test_text_that_only_looks_like_a_password_stays(text: str):
    assert redact(text) is text


DRAWN = {
    "letters and digits": (ALNUM, 36),
    "hexadecimal": (LOWER_HEX, 40),
    "password": (ALNUM + "!@#*", 14),
}
POSITIONS = {
    "letters and digits": (
        "acme_{}",
        "it printed acme-pat-{} and went on",
        "OPENAI_KEY={}",
        "pw: {}",
        "machine api.internal\n  login app\n  password {}\n",
        "apiVersion: v1\ndata:\n  blob: {}\nkind: Secret\n",
        '{{"data": {{"blob": "{}"}}, "kind": "Secret"}}',
        "Set-Cookie: sessionid={}; Path=/; HttpOnly",
        "Cookie: theme=dark; sid={}; lang=en",
        "redis-cli -h cache.internal -a {} ping",
        "docker login -u app -p {} registry.internal",
        "echo {} | docker login -u app --password-stdin",
        "https://maps.internal/api?key={}&v=3",
        "ENV API_TOKEN {}",
        "<apiKey>{}</apiKey>",
        "the token is {}",
        "\uff54\uff4f\uff4b\uff45\uff4e\uff1a{}",
    ),
    "hexadecimal": (
        "DD_APP_KEY={}",
        "https://{}@github.com/org/repo.git",
        "Authorization: token {}",
        "https://bucket.internal/x?X-Amz-Signature={}",
        "GET /v1/x?api_key={}&n=1",
    ),
    "password": (
        "PGPASSWORD='{}' psql",
        "ALTER USER app WITH PASSWORD '{}';",
        "CREATE USER app IDENTIFIED BY '{}';",
        "requirepass {}",
        "ldapsearch -D cn=admin -w {} -b dc=internal",
        "db.internal:5432:shop:app:{}",
        "<password>{}</password>",
    ),
}


@pytest.mark.parametrize(
    ("kind", "template"),
    [(kind, template) for kind, templates in POSITIONS.items() for template in templates],
)
def test_random_values_are_redacted_in_credential_positions(kind: str, template: str):
    rng = random.Random(template)
    alphabet, size = DRAWN[kind]
    for _ in range(20):
        body = draw(rng, alphabet, size)
        secret = f"k{body}7Q" if kind == "password" else body
        assert secret not in redact(template.format(secret))


def test_issuer_token_shapes_are_always_redacted():
    key = "AK" + "IAIOSFODNN7" + "EXAMPLE"
    assert redact(f"it printed {key}").startswith("it printed [redacted:aws-access-key:")


@pytest.mark.parametrize(
    "text",
    [
        "merge branch main-d7e581bcf00d5d60f231a96dfa8218479b7618af",
        "files#diff-197a732275c32bdbdb079bdd92ac8a4ba585ee556ea978e9e661804eb76ce9eeL117",
        "v0.0.0-20241108190413-2d47ceb2692f",
        "libunicode_ident-90d3c33eeb6b75ae.rlib",
        "session_01DiUkqY2kzbUbDmW1w96rfi",
        "ses_df6d9225effeMnfArlGTvKVREI",
        "prt_208ff8ec80010B5biwlO6E313v",
        "claude/analyze-test-coverage-01BnJsiXhLinMJyRe78R29e9",
        "request req-550e8400-e29b-41d4-a716-446655440000",
        "sha256-tQjf8gvb2ROOMapIxFvFAYBeUJ0v1HCbOcSmDNXGtDo",
        "at ipnlocal.handleC2NDebugNetMap(0xc0b3f5a)",
        "coredns-5d78c9869d-x7k2p is ready",
        "a badge: https://codecov.internal/badge.svg?token=Q3W9E8R7T6",
        "pass `--color=never` to it",
        "auth-key=arn:aws:ssm:us-east-1:123456789012:parameter/app/key",
        "kind: Secret\nstringData:\n  id: client-id\n",
        "public_key=9f86d081884c7d659a2feaa0c55ad015",
        "密码：请输入，然后继续",
        "constraints are identified by column, not by name2",
        "viewdocument?DocumentKey=12d8d106-1137-4d7c-8bb4-3ea1faec83fa",
        "WHERE password = '#{params[:password]}'",
    ],
)
def test_digests_ids_and_names_stay(text: str):
    assert redact(text) is text


def test_secrets_in_keys_go():
    sample, core = KINDS["github p"](random.Random(3))
    assert core not in str(redact_value({sample: 1}))


FRAGMENTS = st.sampled_from(
    [
        *(pattern.cue for pattern in ISSUED + NAMED),
        *('="', "='", ": ", "=", '"', "\\", "\n", "://", "@", ":", "[redacted:jwt:0a1b]", "-----"),
        *(KINDS[kind](random.Random(kind))[0] for kind in KINDS),
        *("\u200b", "\u00ad", "=\n", "\\\n", "\r\n", "word " * 13 + "\n"),  # splits a secret
        *("A1b2C3d4" * 5, "hunter22", "\u0130", "\x00", "[redacted:", "END PRIVATE KEY-----"),
    ]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=8), max_size=12).map("".join)


# letters whose lower case is a letter of a cue
ODD = TEXTS.map(lambda text: text.replace("k", "\u212a").replace("i", "\u0130"))


@settings(deadline=None, max_examples=400)
@given(st.lists(TEXTS | TEXTS.map(str.upper) | ODD, max_size=4))
def test_many_texts_at_once_are_found_to_hold_what_each_one_does(texts: list[str]):
    each = [(place, secret) for place, text in enumerate(texts) for secret in find(text)]
    assert list(find_in_all(pa.array(texts, pa.string()))) == each


@settings(deadline=None, max_examples=400)
@given(TEXTS)
def test_redacting_twice_changes_nothing(text: str):
    once = redact(text)
    assert find(once) == []
    assert redact(once) is once


@settings(deadline=None)
@given(
    st.recursive(
        TEXTS | st.integers() | st.none(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(TEXTS | st.sampled_from(["password", "api_key"]), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_redacting_a_value_twice_changes_nothing(value):
    once = redact_value(value)
    assert redact_value(once) == once


@pytest.mark.parametrize("pattern", NAMED, ids=lambda pattern: f"{pattern.kind} {pattern.cue}")
@settings(max_examples=5)
@given(data=st.data())
def test_sanitized_names_are_never_plain_alphanumeric(pattern: Pattern, data):
    assert not data.draw(st.from_regex(pattern.regex)).isalnum()


def test_our_own_ids_are_not_credentials():
    """Ids are not checked on their own, so no pattern may match a part of one."""
    alphabet, rng = "0123456789ABCDEFGHJKMNPQRSTVWXYZ", random.Random(26)
    cues = {pattern.cue for pattern in ISSUED if set(pattern.cue) <= set(alphabet)}
    assert len(cues) > 10
    for cue in sorted(cues) * 40:
        place = rng.randrange(1, 27 - len(cue)) if cue[:1] not in set("01234567") else 0
        drawn = rng.choice("01234567") + "".join(rng.choices(alphabet, k=25))
        id_ = drawn[:place] + cue + drawn[place + len(cue) :]
        assert len(id_) == 26
        assert redact(f"({id_})") == f"({id_})" and redact(id_) == id_
