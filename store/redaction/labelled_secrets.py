"""
Credentials recognised by their context: a name, a header, a flag, a URL before them.

Each pattern runs on lower-cased text and opens with its cue, which `re` searches at memchr's speed;
the generic assignments come last. The value decides: a name alone makes nothing a secret.
"""

import re
from collections.abc import Callable, Iterator

from store.redaction.secret_values import (
    is_drawn,
    is_flag_password,
    is_given_password,
    is_lettered,
    is_mixed,
    is_mixed_opaque,
    is_opaque,
    is_password,
    is_random,
    is_stored,
    is_token,
    is_url_password,
    is_varied,
)
from store.redaction.token_patterns import UUID, Pattern

# An assignment: a name, perhaps in quotes, a sign, a value, perhaps in quotes.
_SUFFIX = (
    r"(?:s?[_-]?(?:key|value|prod|production|staging|dev|test|live|base(?:64)?|b64"
    r"|old|new|main|default|[0-9]{1,3}))?"
)
_QUOTE = r"(?:\\{0,3}[\"'`]|\*\*)"
_EQUALS = r"(?::[ ]?(?:str|string)[ ]?)?={1,3}>?|:=?|->"
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
_KEYS = "api app access secret private account auth signing encryption master license".split()
_OF_KEY = "|".join(f"(?<={name}key)|(?<={name}[._ -]key)" for name in _KEYS)

# keys that are no credentials, unless the value looks drawn at random
_OTHER_KEY = "".join(
    f"(?<!{name}key)(?<!{name}[._ -]key)"
    for name in "public cache primary foreign sort partition hash row object map dict json lookup"
    " index group range shard route idempotency dedup host ssh node unique resource".split()
)

# `-pX` of mysql, mysqldump ...: there is no space before the value
_WORDS = r"(?:[^\s|;&]{1,100}[ ]{1,3}){0,9}"  # of a command line, before a flag
_FLAGS = (  # of programs: flags before a password
    ("redis-cli", r"redis-cli[ ]", "(?:-a|--pass)"),
    ("mongo", r"mongo[a-z]{0,7}[ ]", "-p"),
    ("login ", r"login[ ]", "-p"),
    ("cqlsh", r"cqlsh[ ]", "-p"),
    ("mosquitto_", r"mosquitto_[a-z]{3}[ ]", "-p"),
    ("sqlcmd", r"sqlcmd[ ]", "-p"),
    ("ipmitool", r"ipmitool[ ]", "-p"),
    ("ldap", r"ldap[a-z]{3,8}[ ]", "-w"),
    ("7z ", r"7z [ ]?", "-p"),
    ("sshpass", r"sshpass[ ]", "-p"),
)


def _flag(program: str, flag: str) -> str:
    return rf"{program}{_WORDS}{flag}[ =]?[\"']?([^\s\"'=\x00]{{4,200}})"


_SUBMITTED = r"\s?\|\s?(?:sudo -s|(?:sudo )?chpasswd|[^|\n\x00]{1,200}--password-stdin)"
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
    ("heroku-key", "heroku", rf"heroku.{{0,40}}?[=:\s\"']({UUID})", is_random),
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
    *(("password", cue, _flag(program, flag), is_flag_password) for cue, program, flag in _FLAGS),
    ("password", " -u", r" -u[ ]?[\"']?[\w.\\-]{1,60}%([^\s\"'\x00]{4,200})", is_flag_password),
    (
        "password",
        "echo ",
        r"echo (?:-n )?[\"']?(?:[\w.-]{1,60}:)?([^\s\"'|:\x00]{4,200})[\"']?" + _SUBMITTED,
        is_flag_password,
    ),
    (
        "password",
        "htpasswd",
        r"htpasswd -[a-z]{1,4} [^\s\x00]{1,200} [^\s\x00]{1,80} ([^\s\x00]{4,200})",
        is_flag_password,
    ),
    ("password", "literal=", r"--from-literal=(?:[\w.-]{1,100}=)([^\s\x00]{4,500})", is_stored),
    ("token", "--body", r"--body[ =][\"']?([^\s\"'\x00]{16,500}+)", is_opaque),
    ("token", "auth ", r"auth ([\w.~+/=-]{20,500}+)", is_opaque),
    ("password", "-pass", r"-pass(?:in|out)?[ =](?:pass:)?([^\s\"'\x00]{4,200})", is_password),
    ("password", "password ", rf"password (?=['\"]){_VALUE}", is_password),  # SQL
    (
        "password",
        "identified ",
        rf"identified (?:with \w{{1,40}} )?by (?=['\"]){_VALUE}",
        is_url_password,
    ),
    ("password", "requirepass", rf"requirepass[ \"']{{1,3}}{_VALUE}", is_password),
    ("password", "masterauth", rf"masterauth[ \"']{{1,3}}{_VALUE}", is_password),
    # a .netrc, on one line or on many; a .pgpass
    (
        "password",
        "login",
        r"login\s{1,3}[^\s\x00]{1,100}\s{1,8}password\s{1,3}([^\s\x00]{4,200})",
        is_url_password,
    ),
    (
        "password",
        "machine ",
        r"machine\s{1,3}[^\s\x00]{1,100}\s{1,8}password\s{1,3}([^\s\x00]{4,200})",
        is_url_password,
    ),
    (
        "password",
        ":5432:",
        r":5432:[\w*.-]{1,60}:[\w*.-]{1,60}:([^\s:\x00]{4,200})$",
        is_url_password,
    ),
    ("password", "password>", r"password>([^\s<\x00]{4,200}+)<", is_url_password),
    *(
        ("token", f"{name}>", rf"{name}>([^\s<>\x00]{{10,500}}+)</", is_token)
        for name in ("token", "secret", "key")
    ),
    ("url-token", "://", r"://([^\s/:@\"'<>\x00]{16,500}+)@", is_drawn),
    ("url-token", "key=", r"key=(?<=[?&]key=)([^\s&\"'#<>\x00]{16,500}+)", is_opaque),
    (
        "url-signature",
        "signature=",
        r"signature=(?<=[?&-]signature=)([\w%+/=-]{32,500}+)",
        is_varied,
    ),
    ("session", "sessid=", r"sessid=([^\s;,&\"'\x00]{16,500}+)", is_drawn),
    ("session", "sessionid=", r"sessionid=([^\s;,&\"'\x00]{16,500}+)", is_drawn),
    ("session", "connect.sid=", r"connect\.sid=([^\s;,&\"'\x00]{16,500}+)", is_drawn),
)
_PASSWORD_NAMES = (
    "password passwd passphrase passcode pwd _pass -pass",
    # the word in the languages that most developers write
    "passwort kennwort contraseña senha wachtwoord lösenord hasło heslo jelszó salasana parola",
    "пароль 密码 密碼 パスワード 비밀번호",
)
_SPACED_NAMES = ("mot de passe", "mật khẩu")
_TOKEN_NAMES = "secret credential _auth -auth _pat -pat _creds -creds passkey"
# phrases after a name in a sentence or a table; without a sign, the value must look the part
_SAID = rf"{_QUOTE}?(?:[ ](?:is|was|to|ist|es|est|=)[ :]{{1,2}}|[ ]?\|[ ]?|\t)"
_SPACED = rf"(?:{_SAID}|[ \t]{{1,4}})"  # as of a setting: the name, the value


def _assignments() -> Iterator[tuple[str, str, str, Callable[[str], bool]]]:
    passwords = (*" ".join(_PASSWORD_NAMES).split(), *_SPACED_NAMES)
    names = [("password", name, name, is_password, is_given_password) for name in passwords]
    names += [
        ("password", "pw", r"pw(?<![a-z]pw)", is_password, is_given_password),
        ("password", "psk", r"psk(?<![a-z]psk)", is_password, is_given_password),
        ("password", "pass", r"pass(?<![a-z_-]pass)", is_given_password, is_given_password),
    ]
    names += [("token", name, name, is_token, is_opaque) for name in _TOKEN_NAMES.split()]
    names += [
        ("token", "token", r"token(?<!\.svg\?token)", is_token, is_opaque),  # a badge's is public
        ("token", "key", f"key(?:{_OF_KEY})", is_token, is_opaque),
        ("token", "key", rf"key(?<=[_.-]key){_OTHER_KEY}", is_opaque, is_mixed_opaque),
        ("token", "key", rf"key(?<=[a-z0-9]key){_OTHER_KEY}", is_mixed_opaque, is_mixed_opaque),
        ("token", "key", r"key(?<![\w.-]key)", is_mixed_opaque, is_mixed_opaque),
        ("token", "pat", r"pat(?<![\w.-]pat)", is_mixed_opaque, is_mixed_opaque),
        ("token", "salt", r"salt(?<![a-z]salt)", is_opaque, is_mixed_opaque),
        ("token", "jwt", r"jwt(?<![a-z]jwt)", is_opaque, is_mixed_opaque),
    ]
    for kind, cue, name, is_secret, is_given in names:
        yield kind, cue, rf"{name}{_SUFFIX}(?:{_LINE_END}|{_SIGN}{_VALUE})", is_secret
        text = _SAID if kind == "password" else _SPACED
        yield kind, cue, rf"{name}{_SUFFIX}{text}{_VALUE}", is_given
    for name in passwords:
        yield "password", name, rf"{name}{_SUFFIX}{_SIGN}{_LETTERS}", is_lettered


NAMED = tuple(
    Pattern(kind, cue, regex, is_secret, re.ASCII | re.MULTILINE)
    for kind, cue, regex, is_secret in (*_INTRODUCED, *_assignments())
)
