"""
Secrets of many kinds, and their many contexts in a text.

Samples are random and assembled from parts, so that no scanner takes this file for a leak.
"""

import base64
import random
import string
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass

HEX = "0123456789abcdef"
ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"
BASE32 = string.ascii_uppercase + "234567"
SYMBOLS = "!@#%^*-_+."


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret as it is issued, its name, and the part of it that must not survive."""

    name: str  # in words: "github token"
    value: str
    core: str
    of_whom: str = "deploy"  # the account it belongs to

    def called(self, join: str) -> str:
        return join.join(self.name.split())


Sample = Callable[[random.Random], Secret]
Context = Callable[[Secret, random.Random], str]


def draw(rng: random.Random, alphabet: str, size: int) -> str:
    return "".join(rng.choices(alphabet, k=size))


def issued(name: str, prefix: str, alphabet: str, size: int, suffix: str = "") -> Sample:
    def sample(rng: random.Random) -> Secret:
        body = draw(rng, alphabet, size)
        return Secret(name, prefix + body + suffix, body)

    return sample


def mixed(name: str, alphabet: str = ALNUM + SYMBOLS, size: int = 15) -> Sample:
    """Return a sampler of values with at least one digit, upper and lower case letter."""

    def sample(rng: random.Random) -> Secret:
        body = [*draw(rng, alphabet, size - 3), rng.choice("abcdef"), rng.choice("XYZ")]
        rng.shuffle(body)
        value = "".join((rng.choice(string.ascii_letters), *body, rng.choice(string.digits)))
        return Secret(name, value, value)

    return sample


def jwt(rng: random.Random) -> Secret:
    body = draw(rng, URLSAFE, 80)
    head = draw(rng, ALNUM, 33)
    return Secret("session", f"ey{'J'}{head}.ey{'J'}{body}.{draw(rng, URLSAFE, 43)}", body)


def key_block(rng: random.Random) -> Secret:
    lines = [draw(rng, BASE64, 64) for _ in range(6)]
    label = rng.choice(("RSA ", "EC ", "OPENSSH ", "")) + "PRIVATE KEY"
    value = "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"))
    return Secret("signing key", value, lines[3])


def letters(rng: random.Random) -> Secret:
    words = "correct horse battery staple purple window monday garden orbit velvet".split()
    value = "".join(rng.sample(words, 3))
    return Secret("db password", value, value)


def passphrase(rng: random.Random) -> Secret:
    words = "Correct Horse Battery Staple Purple Window Monday Garden Orbit Velvet".split()
    value = f"{'-'.join(rng.sample(words, 4))}-{rng.randrange(10, 99)}"
    return Secret("vault passphrase", value, value)


def in_url(scheme: str, name: str) -> Sample:
    def sample(rng: random.Random) -> Secret:
        core = mixed("")(rng).value.replace("@", "a").replace("#", "b")
        return Secret(name, f"{scheme}://app:{core}@db.internal:5432/app", core)

    return sample


def webhook(rng: random.Random) -> Secret:
    core = draw(rng, ALNUM, 24)
    start = "https://hooks.slack" + ".com/services/T"
    return Secret("slack webhook", f"{start}{draw(rng, BASE32, 8)}/B0{'A' * 7}/{core}", core)


def telegram(rng: random.Random) -> Secret:
    core = draw(rng, URLSAFE, 33)
    return Secret("bot token", f"{draw(rng, string.digits, 10)}:A{'A'}{core}", core)


def sentry(rng: random.Random) -> Secret:
    core = draw(rng, HEX, 32)
    return Secret("sentry dsn", f"https://{core}@o4504.ingest.sentry.io/450", core)


def azure(rng: random.Random) -> Secret:
    core = draw(rng, BASE64, 86)
    text = f"DefaultEndpointsProtocol=https;AccountName=shop;Account{'Key'}={core}=="
    return Secret("storage connection", text, core)


KINDS: Mapping[str, Sample] = {
    "aws access key": issued("aws access key id", "AK" + "IA", BASE32, 16),
    "aws secret key": issued("aws secret access key", "", BASE64, 40),
    "github token": issued("github token", "gh" + "p_", ALNUM, 36),
    "github fine-grained": issued("github token", "github" + "_pat_", ALNUM + "_", 82),
    "gitlab token": issued("gitlab token", "gl" + "pat-", URLSAFE, 20),
    "openai key": issued("openai api key", "s" + "k-proj-", URLSAFE, 120),
    "anthropic key": issued("anthropic api key", "s" + "k-ant-api03-", URLSAFE, 93, "AA"),
    "slack token": issued("slack token", "xo" + "xb-", ALNUM, 40),
    "slack webhook": webhook,
    "stripe key": issued("stripe key", "sk" + "_live_", ALNUM, 24),
    "google api key": issued("google api key", "AI" + "za", URLSAFE, 35),
    "twilio key": issued("twilio key", "S" + "K", HEX, 32),
    "sendgrid key": issued("sendgrid key", "S" + "G.abcdefghijklmnopqrst12.", URLSAFE, 43),
    "npm token": issued("npm token", "np" + "m_", ALNUM, 36),
    "pypi token": issued("pypi token", "py" + "pi-AgEIcHlwaS5vcmc", URLSAFE, 150),
    "hugging face token": issued("hf token", "h" + "f_", ALNUM, 34),
    "digitalocean token": issued("do token", "do" + "p_v1_", HEX, 64),
    "vault token": issued("vault token", "hv" + "s.", URLSAFE, 90),
    "databricks token": issued("databricks token", "da" + "pi", HEX, 32),
    "age key": issued("age key", "AGE-SECRET" + "-KEY-1", BASE32, 58),
    "linear key": issued("linear api key", "lin" + "_api_", ALNUM, 40),
    "jwt": jwt,
    "private key": key_block,
    "url password": in_url("postgres", "database url"),
    "broker password": in_url("amqp", "broker url"),
    "sentry dsn": sentry,
    "azure storage": azure,
    "telegram token": telegram,
    "password": mixed("db password"),
    "long password": mixed("admin password", size=28),
    "letters-only password": letters,
    "passphrase": passphrase,
    "bare api key": mixed("api key", ALNUM, 32),
    "client secret": mixed("client secret", URLSAFE, 40),
    "access token": mixed("access token", URLSAFE, 48),
    "our own token": lambda rng: (
        lambda core: Secret("memory token", f"mnemo_{draw(rng, HEX, 12)}_{core}", core)
    )(draw(rng, URLSAFE, 43)),
}


def escaped(value: str) -> str:
    """Return a value escaped for one line: in JSON, in YAML's quotes, in a log."""
    return value.replace("\n", "\\n")


def _written(template: str, join: str = "_", case: Callable[[str], str] = str.lower) -> Context:
    def context(secret: Secret, rng: random.Random) -> str:
        name, value = case(secret.called(join)), escaped(secret.value)
        return template.replace("NAME", name).replace("VALUE", value).replace("WHO", secret.of_whom)

    return context


def _camel(name: str) -> str:
    first, *rest = name.lower().split("_")
    return first + "".join(word.title() for word in rest)


def _basic(template: str) -> Context:
    """Return a context with the secret as a password, base64'd with its account."""

    def context(secret: Secret, rng: random.Random) -> str:
        pair = f"{secret.of_whom}:{secret.value}".encode()
        return template.replace("VALUE", base64.b64encode(pair).decode())

    return context


def _zero_width(template: str) -> Context:
    def context(secret: Secret, rng: random.Random) -> str:
        value = escaped(secret.value)
        for mark in ("\u200b", "\u2060", "\u00ad", "\ufeff", "\u200d"):
            place = rng.randrange(1, len(value))
            value = value[:place] + mark + value[place:]
        return template.replace("NAME", secret.called("_").upper()).replace("VALUE", value)

    return context


def _wrapped(width: int, end: str) -> Context:
    """Return a context that breaks its line at the width, also within the secret."""

    def context(secret: Secret, rng: random.Random) -> str:
        text = (
            f"Content of the file as mailed: {secret.called('_').upper()}={escaped(secret.value)}"
        )
        return end.join(textwrap.wrap(text, width, break_on_hyphens=False))

    return context


def _diff(secret: Secret, rng: random.Random) -> str:
    name, value = secret.called("_"), escaped(secret.value)
    return (
        "diff --git a/app/settings.py b/app/settings.py\nindex 83db48f..bf2a1c9 100644\n"
        f'@@ -1,3 +1,3 @@\n DEBUG = False\n-{name} = os.environ["X"]\n+{name} = "{value}"\n'
    )


def _traceback(secret: Secret, rng: random.Random) -> str:
    name, value = secret.called("_"), escaped(secret.value)
    return (
        'Traceback (most recent call last):\n  File "/srv/app/main.py", line 31, in <module>\n'
        f'    client = connect("db.internal", {name}="{value}")\n'
        "ConnectionError: refused"
    )


def _manifest(secret: Secret, rng: random.Random) -> str:
    return (
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: app\nstringData:\n"
        f'  {secret.called("-")}: "{escaped(secret.value)}"\n'
    )


def _container(secret: Secret, rng: random.Random) -> str:
    name = secret.called("_").upper()
    return (
        "spec:\n  containers:\n  - name: app\n    image: shop:1.4\n    env:\n"
        f'    - name: {name}\n      value: "{escaped(secret.value)}"\n'
    )


def _terraform(secret: Secret, rng: random.Random) -> str:
    return (
        f'resource "aws_db_instance" "main" {{\n  engine = "postgres"\n'
        f'  {secret.called("_")} = "{escaped(secret.value)}"\n}}'
    )


CONTEXTS: Mapping[str, Context] = {
    ".env": _written("DEBUG=1\nNAME=VALUE\nPORT=8080\n", case=str.upper),
    ".env in quotes": _written("DEBUG=1\nNAME='VALUE'\nPORT=8080\n", case=str.upper),
    "JSON": _written('{"region": "eu", "NAME": "VALUE", "n": 1}'),
    "JSON in JSON": _written('{"body": "{\\"NAME\\": \\"VALUE\\", \\"n\\": 1}"}'),
    "JSON, camel case": _written('{"NAME":"VALUE","n":1}', case=_camel),
    "YAML": _written("service:\n  NAME: VALUE\n  retries: 3\n"),
    "YAML in quotes": _written('service:\n  NAME: "VALUE"\n  retries: 3\n', "-"),
    "TOML": _written('[service]\nNAME = "VALUE"\nretries = 3\n'),
    "INI": _written("[service]\nNAME = VALUE\nretries = 3\n"),
    "shell export": _written("export NAME=VALUE\nmake deploy", case=str.upper),
    "shell export in quotes": _written('export NAME="VALUE" && make deploy', case=str.upper),
    "PowerShell": _written('$env:NAME = "VALUE"', case=str.upper),
    "curl -u": lambda secret, rng: (
        f"curl -u {secret.of_whom}:{escaped(secret.value)} https://api.internal/v1"
        if "\n" not in secret.value
        else f"curl -d '{escaped(secret.value)}' https://api.internal/v1"
    ),
    "curl -H": _written("curl -H 'Authorization: Bearer VALUE' https://api.internal/v1"),
    "HTTP header": _written(
        "GET /v1 HTTP/1.1\nHost: api.internal\nX-NAME: VALUE\n", "-", str.title
    ),
    "query of a URL": _written("GET https://api.internal/v1?page=2&NAME=VALUE&limit=10"),
    "command line": _written("deploy --region eu --NAME VALUE --verbose", "-"),
    "log line": _written("2026-08-01T12:00:00Z ERROR auth failed NAME=VALUE (retry 3)"),
    "log line of JSON": _written('{"level":"error","msg":"auth failed: NAME=VALUE","n":3}'),
    "traceback": _traceback,
    "diff": _diff,
    "commit message": _written("fix(auth): rotate\n\nThe old NAME: VALUE\nwas in the image."),
    "docker run": _written("docker run -d -e NAME=VALUE -p 80:80 shop:1.4", case=str.upper),
    "Dockerfile": _written("FROM python:3.12\nENV NAME=VALUE\nCMD ./run", case=str.upper),
    "k8s secret": _manifest,
    "k8s container": _container,
    "terraform": _terraform,
    "CI log": _written("##[group]Run make\n  env:\n    NAME: VALUE\n##[endgroup]", case=str.upper),
    "Python call": _written('client = Client(region="eu", NAME="VALUE", timeout=3)'),
    "JavaScript": _written("const NAME = 'VALUE';", case=_camel),
    "Java properties": _written("app.NAME=VALUE\napp.retries=3", "."),
    "SQL": _written("ALTER ROLE app SET NAME = 'VALUE';"),
    "Markdown table": _written("| name | value |\n|---|---|\n| NAME | VALUE |"),
    "Markdown code": _written("Set it:\n```sh\nNAME=VALUE\n```", case=str.upper),
    "Markdown bullet": _written("- **NAME**: `VALUE`\n- other", " "),
    "chat": _written("anna: hey, the NAME is VALUE, please don't share it", " "),
    "chat, German": _written("anna: das Passwort ist VALUE, nicht weitergeben (NAME: VALUE)", " "),
    "Spanish": _written("La contraseña: VALUE\nNo la compartas."),
    "French": _written("Mot de passe : VALUE\nNe pas partager."),
    "Russian": _written("Пароль: VALUE\nНикому не говори."),
    "Chinese": _written("密码：VALUE\n不要分享。"),
    "base64'd basic auth": _basic("Authorization: Basic VALUE"),
    "docker config": _basic('{"auths": {"registry.internal": {"auth": "VALUE"}}}'),
    "zero-width": _zero_width("NAME=VALUE"),
    "wrapped": _wrapped(76, "\n"),
    "quoted-printable": _wrapped(60, "=\n"),
    "shell, continued": _wrapped(70, "\\\n"),
}
