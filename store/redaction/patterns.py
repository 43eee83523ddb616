"""
What a secret looks like: one pattern per shape a credential takes in text.

Each pattern has a literal cue that any match must contain, so most texts cost a few
substring tests and no regular expression. Every expression is linear: a run of one character
class either matches or fails within its minimum length, bounded where something must follow.
The most specific patterns come first; the generic assignments come last. No expression
matches NUL, which `redact` puts in place of what is already redacted.

Shapes follow the issuers' documentation and https://github.com/gitleaks/gitleaks.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

SHORTEST_ISSUED = 20  # characters without white space in the shortest credential of `ISSUED`


@dataclass(frozen=True)
class Pattern:
    kind: str
    cue: str
    expression: str  # the secret is the group that matched, or all of it
    is_secret: Callable[[str], bool]
    flags: int = 0

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """Compiled for the first text with the cue: all of them would slow every start."""
        return re.compile(self.expression, self.flags)


def is_placeholder(value: str) -> bool:
    """Say whether `value` stands for a secret without being one: `${VAR}`, `<key>`, `changeme`."""
    return len(set(value)) < 4 or _PLACEHOLDER.search(value) is not None


def is_random(value: str) -> bool:
    return len(set(value)) >= 8 and _PLACEHOLDER.search(value) is None


def is_mixed(value: str) -> bool:
    return is_random(value) and _DIGIT.search(value) is not None and value.lower() != value.upper()


def is_password(value: str) -> bool:
    """Say whether `value`, given to a name like `password`, is one and not code or a word."""
    if is_placeholder(value) or _CODE.match(value):
        return False
    return _DIGIT.search(value) is not None or _SYMBOL.search(value) is not None


def is_url_password(value: str) -> bool:
    return not is_placeholder(value)


def is_token(value: str) -> bool:
    """Say whether `value`, given to a name like `token` or `api_key`, is a credential."""
    return (
        len(value) >= 10
        and is_mixed(value)
        and not _CODE.match(value)
        and not all(_WORDY.fullmatch(part) for part in _PART.split(value))
    )


def is_key_block(value: str) -> bool:
    return len(_KEY_CHARACTER.findall(value)) >= 75  # 28 in the lines around, 64 in Ed25519


def is_given_password(value: str) -> bool:
    """Like `is_password`, for what only a verb introduces: "the password is ..."."""
    kinds = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum())
    return is_password(value) and sum(any(map(kind, value)) for kind in kinds) >= 3


def is_lettered(value: str) -> bool:
    """Say whether letters alone, given to a name like `password`, are words run together."""
    return (
        value.isalpha()
        and value.islower()
        and not is_placeholder(value)
        and _CODE.match(value) is None
    )


def is_flag_password(value: str) -> bool:
    """Say whether `value`, right behind a short flag, is a password and not a port."""
    return not value.isdigit() and is_url_password(value) and not _CODE.match(value)


_DIGIT = re.compile(r"[0-9]")
_SYMBOL = re.compile(r"[!#$%^&*+=?~|]")
_PART = re.compile(r"[-_./: ]")
_KEY_CHARACTER = re.compile(r"[A-Za-z0-9+/]")
_WORDY = re.compile(r"[a-z]*(?:[A-Z][a-z]{2,})*[0-9]{0,2}|[A-Z]+[0-9]{0,2}|[0-9]{1,4}")
_PLACEHOLDER = re.compile(
    r"x{4}|\*{3}|\.{3}|…|•{3}|example|placeholder|change[-_ ]?me|redacted|dummy|your[-_ ]|<[a-z]"
    r"|^(?:\$|\{|<|\[|@|%[a-z({])"
    r"|^(?:the|my|some|insert|enter|replace|put|fake|mock|sample|test)[-_ ]"
    r"|^(?:none|null|nil|true|false|undefined|optional|required|string|bytes|secret|pass(?:phrase)?"
    r"|passw[o0]rd|passwd|pwd|token|tiger|api[-_]?key|default|admin|root|user|username|guest|postgres"
    r"|mysql|redis|rabbitmq|minioadmin|localhost|hidden|masked|removed|empty|unset|foobar|todo|tbd"
    r"|test|testing|latest|letmein|qwerty|s3cr[e3]t|hunter2)[0-9!]{0,3}$",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[/~]|\.{1,2}/|https?://|[A-Za-z_][\w.]*[(\[{]|[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$"
    r"|(?:sha|md|aes|hs|rs|es)-?[0-9]{1,3}|bcrypt|s?crypt|argon2|pbkdf2|base(?:32|64)"
    r"|[a-z_]*(?:password|passwd|pwd|token|secret|key|hash)[a-z_]*[0-9]?$",
    re.ASCII | re.IGNORECASE,
)


def _opening(prefix: str) -> str:
    """Return the expression of `prefix` where a word starts, or after an escape: `\\n`, `%3D`.

    What stands before is looked at after the prefix is found, which `re` finds far faster.
    """
    prefix = re.escape(prefix)
    return rf"{prefix}(?:(?<![A-Za-z0-9]{prefix})|(?<=\\[nrt]{prefix})|(?<=%[0-9A-F]{{2}}{prefix}))"


_HEX32 = r"[0-9a-f]{32,}"
_URLSAFE = r"[A-Za-z0-9_-]"
_ALNUM = r"[A-Za-z0-9]"

_PREFIXED = (
    ("mnemolog-token", "mnemo_", "[0-9a-f]{12}_" + _URLSAFE + "{43}"),
    ("aws-access-key", "AKIA ASIA ABIA ACCA", r"[A-Z2-7]{16,}"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", _ALNUM + "{36,}"),
    ("github-pat", "github_pat_", r"[A-Za-z0-9_]{36,}"),
    ("gitlab-token", "glpat- gldt- glrt- glptt- glcbt- gloas-", r"[A-Za-z0-9_.-]{20,}"),
    ("anthropic-key", "sk-ant-", _URLSAFE + "{32,}"),
    ("openrouter-key", "sk-or-", _URLSAFE + "{32,}"),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-", _URLSAFE + "{20,}"),
    ("slack-token", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxc- xoxd- xapp-", r"[A-Za-z0-9%-]{16,}"),
    ("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", r"[A-Za-z0-9+/]{16,}"),
    ("google-api-key", "AIza", _URLSAFE + "{35,}"),
    ("google-oauth", "GOCSPX-", _URLSAFE + "{20,}"),
    ("google-oauth", "ya29.", r"[A-Za-z0-9_.-]{20,}"),
    ("twilio-key", "SK", _HEX32),
    ("mailgun-key", "key-", _HEX32),
    ("npm-token", "npm_", _ALNUM + "{36,}"),
    ("pypi-token", "pypi-", _URLSAFE + "{50,}"),
    ("huggingface-token", "hf_ api_org_", _ALNUM + "{30,}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{40,}"),
    ("heroku-key", "HRKU-", _URLSAFE + "{30,}"),
    ("linear-key", "lin_api_ lin_oauth_", _ALNUM + "{32,}"),
    ("notion-token", "secret_ ntn_", _ALNUM + "{40,}"),
    ("vault-token", "hvs. hvb. hvr.", _URLSAFE + "{24,}"),
    ("databricks-token", "dapi", _HEX32 + r"(?:-[0-9])?"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32,}"),
    ("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{50,}"),
    ("supabase-key", "sbp_ sb_secret_", r"[A-Za-z0-9_-]{20,}"),
    ("groq-key", "gsk_", _ALNUM + "{40,}"),
    ("xai-key", "xai-", _ALNUM + "{40,}"),
    ("perplexity-key", "pplx-", _ALNUM + "{32,}"),
    ("replicate-token", "r8_", _ALNUM + "{32,}"),
    ("sentry-token", "sntrys_ sntryu_", r"[A-Za-z0-9_=+/]{40,}"),
    ("grafana-token", "glsa_ glc_", r"[A-Za-z0-9_=+/]{32,}"),
    ("docker-token", "dckr_pat_ dckr_oat_", _URLSAFE + "{24,}"),
    ("postman-key", "PMAK-", r"[0-9a-f-]{40,}"),
    ("pulumi-token", "pul-", r"[0-9a-f]{40,}"),
    ("planetscale-token", "pscale_tkn_ pscale_pw_", r"[A-Za-z0-9_.=-]{32,}"),
    ("atlassian-token", "ATATT3 ATCTT3", r"[A-Za-z0-9_=-]{40,}"),
    ("figma-token", "figd_", _URLSAFE + "{36,}"),
    ("tavily-key", "tvly-", _URLSAFE + "{24,}"),
)
_LOOSE = ("sk-", "secret_", "hf_", "api_org_", "pypi-", "xai-")  # words start like these too
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SHAPED = (
    ("sendgrid-key", "SG.", _opening("SG.") + r"[\w-]{16,40}\.[\w-]{16,80}"),
    (
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows)/([\w/+]{20,})",
    ),
    ("discord-webhook", "/webhooks/", r"/api/webhooks/([0-9]{17,20}/[\w-]{40,})"),
    (
        "jwt",
        "eyJ",
        r"eyJ(?:(?<![\w-]eyJ)|(?<=\\[nrt]eyJ))[\w-]{10,}+\.[\w-]{10,}+(?:\.[\w-]*+){0,3}",
    ),
    ("azure-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{40,}={0,2})"),
    ("azure-key", "SharedAccessKey=", r"SharedAccessKey=([A-Za-z0-9+/]{40,}={0,2})"),
    ("azure-sas", "sig=", r"sig=(?<![A-Za-z0-9]sig=)([A-Za-z0-9%+/_-]{40,}={0,2})"),
    ("azure-client-secret", "8Q~", r"(?<![\w.~-])[\w.~-]{3}8Q~[\w.~-]{31,}"),
    ("telegram-token", ":AA", r"(?<![0-9])[0-9]{8,10}:AA[\w-]{32,}"),
    ("discord-token", ".", r"(?:(?<![\w.-])|(?<=\\[nrt]))[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}"),
    ("sentry-dsn", "://", r"://([0-9a-f]{32})(?::[0-9a-f]{32})?@[\w.-]{1,100}/[0-9]"),
)

_KEY_BODY = r"[^-\x00]*+(?:-(?!----)[^-\x00]*+)*+"  # up to the next five dashes
_KEY_LINES = r"(?:(?:[\s>|#*\"',+]|\\{1,4}[nrt])*+[A-Za-z0-9+/]{16,}+={0,2})+"  # a block cut short
_BLOCKS = (
    ("private-key", "PRIVATE KEY-----", r"(?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY"),
    ("pgp-private-key", "PGP PRIVATE KEY BLOCK", r"PGP PRIVATE KEY BLOCK"),
)

# An assignment: a name, perhaps in quotes, a sign, a value, perhaps in quotes. Each expression
# runs on lower-cased text and opens with its cue, for which `re` searches at memchr's speed.
_SUFFIX = r"(?:s?[_-]?(?:key|value|prod|production|staging|dev|test|live|base64|[0-9]{1,3}))?"
_QUOTE = r"(?:\\{0,3}[\"'`]|\*\*)"
_EQUALS = r"(?::[ ]?(?:str|string)[ ]?)?={1,3}>?|:=?|\uff1a"
# in a list of pairs, as of a container's environment: the value has a name of its own
_PAIRED = rf"{_QUOTE}?[,\s]\s{{0,40}}{_QUOTE}?value{_QUOTE}?[ ]?[:=][ ]?"
_SIGN = (
    rf"(?:(?:{_QUOTE}|\]){{0,3}}[ \t\xa0\u202f]{{0,3}}(?:{_EQUALS}){_QUOTE}?\s{{0,3}}|{_PAIRED})"
)
_VALUE = (
    r"(?:\\{0,3}\"([^\"\n\x00]{6,500}?)\\{0,3}\"|\\{0,3}'([^'\n\x00]{6,500}?)\\{0,3}'"
    r"|`([^`\n\x00]{6,500})`"
    r"|[\"'`]?([^\s\"'`<>,;(){}\[\]&\\\x00]{6,500}+)(?![(\[]))"
)
_LETTERS = r"\\{0,3}[\"'`]?([a-z]{12,64})(?![^\s\"'`,;}\\])"
_LINE_END = r"=([^\s\"'`$<\x00][^\s\"'`\x00]{5,499}+)$"  # in a shell or .env file: odd signs too
_FLAG_VALUE = r"[ =]{1,2}[\"']?([^\s\"'`<>\x00]{6,500})"
_AUTHORIZATION = r"authorization(?:[\"'\]]|\\[\"']){0,2}[ \t]{0,3}[:=]\s{0,3}(?:[\"']|\\[\"']){0,2}"
_KEYS = "api access secret private account auth signing encryption master license".split()
_OF_KEY = "|".join(f"(?<={name}key)|(?<={name}[._ -]key)" for name in _KEYS)

# `-pX` of mysql, mysqldump ...: there is no space before the value
_WORDS = r"(?:[^\s|;&]{1,100}[ ]{1,3}){0,9}"  # of a command line, before a flag
_CURL_USER = rf"curl[ ]{_WORDS}(?:-u|--user)[ =]?[\"']?[\w.@+-]{{1,80}}:([^\s\"'\x00]{{4,200}})"
_PROGRAM_FLAG = r"mysql[a-z]{0,6}[ ]" + _WORDS + r"-p[\"']?([^\s\"'=\x00]{4,200})"

_INTRODUCED = (
    (
        "aws-secret-key",
        "aws",
        r"aws.{0,20}?secret.{0,20}?[=:,]\s{0,3}\\?[\"']?([a-z0-9/+]{40})(?![a-z0-9/+])",
        is_random,
    ),
    ("aws-secret-key", "akia", r"akia[a-z2-7]{16}[\s:,\"'/|]{1,5}([a-z0-9/+]{40})\b", is_random),
    ("heroku-key", "heroku", rf"heroku.{{0,40}}?[=:\s\"']({_UUID})", is_random),
    ("cloudflare-key", "cloudflare", r"cloudflare.{0,40}?[=:\s\"']([\w-]{32,})", is_mixed),
    (
        "url-password",
        "://",
        r"://[^\s/:@\"'<>\x00]{0,100}:([^\s/\"'<>\x00]{1,200})@",
        is_url_password,
    ),
    ("bearer", "bearer", r"bearer(?:\s{1,3}|%20)([\w.~+/=-]{16,})", is_token),
    (
        "basic-auth",
        "authorization",
        _AUTHORIZATION + r"basic\s{1,3}([a-z0-9+/]{8,}={0,2})",
        is_random,
    ),
    (
        "authorization",
        "authorization",
        _AUTHORIZATION + r"(?:\w{3,12} )?([\w.~+/=-]{16,})",
        is_token,
    ),
    ("curl-user", "curl", _CURL_USER, is_flag_password),
    ("curl-user", " -u", r" -u[ =]?[\"']?[\w.@+-]{1,80}:([^\s\"'\x00]{6,200})", is_mixed),
    ("curl-user", "--user", r"--user[ =][\"']?[\w.@+-]{1,80}:([^\s\"'\x00]{6,200})", is_mixed),
    ("password", "--", r"--[a-z-]{0,20}pass(?:word|wd|phrase)?" + _FLAG_VALUE, is_password),
    ("password", "--", rf"--[a-z-]{{0,20}}pass(?:word|wd|phrase)?[ =]{_LETTERS}", is_lettered),
    ("token", "--", r"--[a-z-]{0,20}(?:token|secret|key)" + _FLAG_VALUE, is_token),
    (
        "basic-auth",
        '"auth',
        r'"auth\\{0,3}":\s{0,3}\\{0,3}"([a-z0-9+/]{12,}={0,2})\\{0,3}"',
        is_token,
    ),
    ("password", "mysql", _PROGRAM_FLAG, is_flag_password),
    ("password", "mariadb", _PROGRAM_FLAG.replace("mysql", "mariadb", 1), is_flag_password),
    ("password", "sshpass -p", r"sshpass -p[ ]?[\"']?([^\s\"'\x00]{4,200})", is_flag_password),
)
_PASSWORD_NAMES = (
    "password passwd passphrase passcode pwd _pass -pass",
    # the word in the languages that most developers write
    "passwort kennwort contraseña senha wachtwoord lösenord hasło heslo jelszó salasana parola",
    "пароль 密码 密碼 パスワード 비밀번호",
)
_SPACED_NAMES = ("mot de passe", "mật khẩu")
_TOKEN_NAMES = "token secret credential _auth -auth"
# what a sentence or a table says of a name; a value must look the part, for nothing assigns it
_SAID = rf"{_QUOTE}?(?:[ ](?:is|was|ist|es|est|=)[ :]{{1,2}}|[ ]?\|[ ]?)"


def _assigned() -> Iterator[tuple[str, str, str, Callable[[str], bool]]]:
    passwords = (*" ".join(_PASSWORD_NAMES).split(), *_SPACED_NAMES)
    names = [("password", name, name, is_password) for name in passwords]
    names += [("token", name, name, is_token) for name in _TOKEN_NAMES.split()]
    names += [("token", "key", f"key(?:{_OF_KEY})", is_token)]
    for kind, cue, name, is_secret in names:
        yield kind, cue, rf"{name}{_SUFFIX}(?:{_LINE_END}|{_SIGN}{_VALUE})", is_secret
        is_given = is_token if kind == "token" else is_given_password
        yield kind, cue, rf"{name}{_SUFFIX}{_SAID}{_VALUE}", is_given
    for name in passwords:
        yield "password", name, rf"{name}{_SUFFIX}{_SIGN}{_LETTERS}", is_lettered


def _issued() -> Iterator[Pattern]:
    for kind, cue, header in _BLOCKS:
        regex = rf"-----BEGIN {header}-----(?:{_KEY_BODY}-----END {header}-----|{_KEY_LINES})"
        yield Pattern(kind, cue, regex, is_key_block)
    putty = rf"Private-Lines: [0-9]{{1,4}}{_KEY_LINES}"
    yield Pattern("putty-private-key", "Private-Lines:", putty, is_key_block)
    for kind, prefixes, body in _PREFIXED:
        for prefix in prefixes.split():
            regex = _opening(prefix) + body
            is_secret = is_mixed if prefix in _LOOSE else is_random
            yield Pattern(kind, prefix, regex, is_secret)
    for kind, cue, regex in _SHAPED:
        yield Pattern(kind, cue, regex, is_random, re.ASCII)


ISSUED = tuple(_issued())  # recognised by themselves; cues are case-sensitive
NAMED = tuple(  # recognised by what stands before them, in lower-cased text
    Pattern(kind, cue, regex, is_secret, re.ASCII | re.MULTILINE)
    for kind, cue, regex, is_secret in (*_INTRODUCED, *_assigned())
)
