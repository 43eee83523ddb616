"""
Checks of a value on its own: drawn at random, a placeholder for a secret, or a word.

A value drawn at random changes between lower case, upper case and digits every two or three
characters; words, names and versions do so rarely. Every function here is linear in its value.
"""

import re


def is_blank(value: str) -> bool:
    """Return True if `value` is a blacked-out secret: `xxxx`, `***`, hardly any characters."""
    return len(set(value)) < 4 or _is_masked(value)


def is_placeholder(value: str) -> bool:
    """Return True if `value` is a placeholder for a secret: `${VAR}`, `<key>`, `changeme`."""
    return is_blank(value) or _stands_for_a_secret(value)


def is_varied(value: str) -> bool:
    """Return True if `value`, of the shape of one issuer, is more than filler in that shape.

    Words in it are no excuse: a key with `EXAMPLE` in it is no less a key.
    """
    return len(set(value)) >= _VARIED and not _is_masked(value)


def is_random(value: str) -> bool:
    return is_varied(value) and not _stands_for_a_secret(value)


def is_mixed(value: str) -> bool:
    return _has_letters_and_digits(value) and is_random(value)


def is_high_entropy(value: str) -> bool:
    """Return True if a piece of `value` looks drawn at random: no name, no version, no sentence."""
    pieces = [piece for piece in SEPARATOR.split(value) if len(piece) >= _SHORT]
    is_one_case = value.upper() == value or value == value.lower()
    if is_one_case:
        pieces = [piece for piece in pieces if len(piece) >= PIECE]
    runs = [run for piece in pieces for run in _RUN.findall(piece)]
    digits = sum(map(str.isdigit, runs))
    if is_one_case:
        longest = _ONE_CASE_RUN if digits >= 2 else 0
    else:
        longest = _MIXED_RUN if digits else _LETTER_RUN
    return sum(map(len, runs)) < len(runs) * longest


def is_hex(value: str) -> bool:
    """Return True if `value` may be a digest: nothing but hexadecimal digits of one case."""
    return _HEX.fullmatch(value) is not None


def is_prefixed_token(value: str) -> bool:
    """Return True if `value` is a credential behind its issuer's name: `acme_`, `acme-pat-`.

    Digests and ids are written the same way; they stay unless a word before them says otherwise,
    and so does a slug of many words with anything behind it.
    """
    head = _EXTENSION.sub("", value)
    if FILE_ENDING.search(head) or is_blank(head):
        return False
    if match := UUID.search(head):
        return not _ACCESS_WORDS.isdisjoint(SEPARATOR.split(head[: match.start()].lower()))
    pieces = SEPARATOR.split(head)
    later = enumerate(pieces[1:], 1)
    start = next((at for at, piece in later if not _is_plain(piece)), len(pieces))
    prefix, tail = pieces[:start], "-".join(pieces[start:])
    words = {word.lower() for word in prefix}
    is_secret = not words.isdisjoint(_SECRET_WORDS)
    longest = max(map(len, pieces))
    if not prefix or len(prefix[0]) < 2 or is_high_entropy(prefix[0]):
        return False
    if sum(map(len, prefix)) > LONGEST_PREFIX:
        return False
    if longest < (_LONG_PIECE if tail in (tail.lower(), tail.upper()) else PIECE):
        return False
    if not is_secret and (len(tail) < _TAIL or not words.isdisjoint(ID_WORDS)):
        return False
    if is_hex(tail.replace("-", "")):
        is_joined = "-" not in head and "." not in head
        return len(tail) >= _HEX_TAIL and (is_secret or is_joined)
    return len(tail) >= _SECRET_TAIL and is_high_entropy(tail)


def is_password(value: str) -> bool:
    """Return True if `value`, given to a name like `password`, is one and not code or a word."""
    if is_placeholder(value) or _is_code(value):
        return False
    return _DIGIT.search(value) is not None or _SYMBOL.search(value) is not None


def is_url_password(value: str) -> bool:
    return not is_placeholder(value)


def is_token(value: str) -> bool:
    """Return True if `value`, given to a name like `token` or `api_key`, is a credential."""
    if len(value) < 10 or not is_varied(value) or _is_code(value):
        return False
    if _has_letters_and_digits(value) and not _stands_for_a_secret(value):
        return not all(_WORDY.fullmatch(part) for part in _PART.split(value))
    return len(value) >= _TAIL and is_high_entropy(value)


def is_opaque(value: str) -> bool:
    """Return True if `value`, given to a name that may be another kind of key, is a credential."""
    return len(value) >= _SECRET_TAIL and is_token(value) and is_high_entropy(value)


def is_mixed_opaque(value: str) -> bool:
    """Return True if `value`, given to a vague name, is a credential and not a digest."""
    return is_opaque(value) and value.upper() != value != value.lower()


def is_drawn(value: str) -> bool:
    """Return True if `value`, in a place for credentials alone (before a host's name), is one."""
    return len(value) >= _SECRET_TAIL and is_varied(value) and is_high_entropy(value)


def is_stored(value: str) -> bool:
    """Return True if `value`, stored as a secret, is a secret and not a placeholder word."""
    return not is_placeholder(value) and not _SLUG.fullmatch(value)


def is_key_block(value: str) -> bool:
    return len(_KEY_CHARACTER.findall(value)) >= 75  # 28 in the lines around, 64 in Ed25519


def is_given_password(value: str) -> bool:
    """Like `is_password`, for a value after a verb: "the password is ..."."""
    kinds = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum())
    return is_password(value) and sum(any(map(kind, value)) for kind in kinds) >= 3


def is_lettered(value: str) -> bool:
    """Return True if letters alone, given to a name like `password`, are words run together."""
    return value.isalpha() and value.islower() and not is_placeholder(value) and not _is_code(value)


def is_flag_password(value: str) -> bool:
    """Return True if `value`, right behind a short flag, is a password and not a port."""
    return not value.isdigit() and is_url_password(value) and not _is_code(value)


def _has_letters_and_digits(value: str) -> bool:
    return _DIGIT.search(value) is not None and value.lower() != value.upper()


def _is_masked(value: str) -> bool:
    # an expression would try each of these at every character of a long value
    folded = value.casefold()
    if any(mask in folded for mask in _MASKS):
        return True
    return ("<" in folded or "your" in folded) and _NAMES_ITS_OWNER.search(folded) is not None


def _stands_for_a_secret(value: str) -> bool:
    folded = value.casefold()
    if any(word in folded for word in _STAND_INS):
        return True
    if "change" in folded and _CHANGE_ME.search(folded) is not None:
        return True
    return _PLACEHOLDER.match(value) is not None


def _is_code(value: str) -> bool:
    if _DOTTED.match(value):
        return not is_high_entropy(value)
    return _CODE.match(value) is not None


def _is_plain(piece: str) -> bool:
    if len(piece) < _SHORT:
        return _WORDY.fullmatch(piece) is not None
    return not is_high_entropy(piece)


# characters between two changes of class, on average, in 99 of 100 values of 20 drawn at random
_MIXED_RUN, _LETTER_RUN, _ONE_CASE_RUN = 3.3, 3.4, 7.0
_VARIED = 8  # different characters
_SHORT = 8  # characters; a shorter piece may be a part of any name
PIECE, _LONG_PIECE = 12, 16  # characters without a separator, which names seldom have
_TAIL, _SECRET_TAIL, _HEX_TAIL = 20, 16, 16  # characters of the shortest credential
LONGEST_PREFIX = 16
_SECRET_WORDS = frozenset(
    "key keys apikey secret secrets token tok pat sk rk auth oauth pass pwd cred creds priv"
    " private live sec".split()
)
_ACCESS_WORDS = _SECRET_WORDS | {"access", "api"}
ID_WORDS = frozenset(
    "id ids uuid ulid req request msg message evt event session sha sha1 sha256 sha384 sha512 md5"
    " commit rev ref hash digest checksum integrity build run job task trace span user usr org"
    " proj project cus acct evt price sub ch pi po tr txn seti cs in ii il src file img image"
    " asst thread call toolu chatcmpl resp fc rs item batch gen conv chat node pod ami vol snap"
    " vpc subnet eni i r pr ic prr doc page block comment issue mem note branch index chunk asset"
    " cache main vendor bundle lib v go git tmp temp diff pkg ses prt".split()
)

_RUN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
SEPARATOR = re.compile(r"[-_.~+/=]+")
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_EXTENSION = re.compile(r"[+/=].*", re.DOTALL)
_SLUG = re.compile(r"[a-z]+(?:[-_ ][a-z]+)+")
FILE_ENDING = re.compile(r"\.[a-z][a-z0-9]{0,5}$")
_DIGIT = re.compile(r"[0-9]")
_SYMBOL = re.compile(r"[!#$%^&*+=?~|]")
_PART = re.compile(r"[-_./: ]")
_KEY_CHARACTER = re.compile(r"[A-Za-z0-9+/]")
_WORDY = re.compile(r"[a-z]*(?:[A-Z][a-z]{2,})*[0-9]{0,2}|[A-Z]+[0-9]{0,2}|[0-9]{1,4}")
_MASKS = ("xxxx", "***", "...", "…", "•••")
_NAMES_ITS_OWNER = re.compile(r"<[a-z]|your[-_ ]")
_STAND_INS = ("example", "placeholder", "redacted", "dummy")
_CHANGE_ME = re.compile(r"change[-_ ]?me")
_PLACEHOLDER = re.compile(
    r"(?:\$|#?\{|<|\[|@|\(\[|%[a-z({])"
    r"|(?:the|my|some|insert|enter|replace|put|fake|mock|sample|test)[-_ ]"
    r"|(?:none|null|nil|true|false|undefined|optional|required|string|bytes|secret|pass(?:phrase)?"
    r"|passw[o0]rd|passwd|pwd|token|tiger|api[-_]?key|default|admin|root|user|username|guest|postgres"
    r"|mysql|redis|rabbitmq|minioadmin|localhost|hidden|masked|removed|empty|unset|foobar|todo|tbd"
    r"|test|testing|latest|letmein|qwerty|s3cr[e3]t|hunter2)[0-9!]{0,3}$",
    re.IGNORECASE,
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$", re.ASCII)
_CODE = re.compile(
    r"\A(?:[/~]|\.{1,2}/|[a-z]{2,12}://|arn:|\s?[+.,&|]\s|[A-Za-z_][\w.]*[(\[{]|[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"|(?:sha|md|aes|hs|rs|es)-?[0-9]{1,3}|bcrypt|s?crypt|argon2|pbkdf2|base(?:32|64)"
    r"|[a-z_]*(?:password|passwd|pwd|token|secret|key|hash)[a-z_]*[0-9]?$)",
    re.ASCII | re.IGNORECASE,
)
