"""Tokens of issuers without a rule are removed from prose; names, ids and digests stay."""

import random
import string
from collections.abc import Callable

import pyarrow as pa
import pytest

from store.redaction.bare_tokens import is_bare_token
from store.redaction.redact import find, find_in_all, redact

LOWER = string.ascii_lowercase + string.digits
MIXED = string.ascii_letters + string.digits
PROSE = ("here it is: {}", "use {} for staging, please", "I pasted `{}` by mistake.", "try ({})")

Draw = Callable[[str, int], str]
FAMILIES: dict[str, Callable[[Draw], str]] = {  # no weight was fitted on any of these
    "base58": lambda draw: draw(MIXED.translate(dict.fromkeys(map(ord, "0OIl"))), 32),
    "prefix and environment": lambda draw: f"kestrel-live_{draw(MIXED, 28)}",
    "base64": lambda draw: f"{draw(MIXED, 1)}{draw(MIXED + '+/', 42)}=",
    "base64url": lambda draw: f"{draw(MIXED, 1)}{draw(MIXED + '-_', 34)}",
    "groups of four": lambda draw: "-".join(draw(LOWER, 4) for _ in range(6)),
    "checksum behind it": lambda draw: f"nimbus_{draw(MIXED, 30)}_{draw('0123456789abcdef', 8)}",
    "dots": lambda draw: f"v2.{draw(LOWER, 12)}.{draw(MIXED, 27)}",
    "base32": lambda draw: f"vela.{draw('abcdefghijklmnopqrstuvwxyz234567', 32)}",
    "letters": lambda draw: draw(string.ascii_letters, 32),
}


def drawn(family: str, number: int) -> str:
    chance = random.Random(f"{family} {number}")
    return FAMILIES[family](lambda alphabet, size: "".join(chance.choices(alphabet, k=size)))


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_of_unknown_issuers_go_out_of_prose(family: str):
    texts = [(drawn(family, number), context) for number in range(100) for context in PROSE]
    kept_tokens = [token for token, context in texts if token in redact(context.format(token))]
    assert len(kept_tokens) <= 0.15 * len(texts)


@pytest.mark.parametrize(
    "text",
    [
        "fix in commit 3f2a9c1d8b7e6f5a4c3d2e1f0a9b8c7d6e5f4a3b, then deploy",
        "it came with 8e03978e-40d5-43e8-bc93-6894a57f9324 in the log",
        "the event 01KA7Q3N5V8W2X4Y6Z9B1C3D5F was replayed",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 is pinned",
        "pod checkout-7d9f8c6b5d-x2k9z restarted twice",
        "see toolu_01MHLmbSLToSRMqz7b9FduyX and req_011CVZ4RgWbT1MmVXtiMmTdv again",
        "session id: k3Jd92LsPq8VzX1mNb7RtY5w was resumed",
        "open https://docs.internal/d/1aB9dKfQw3ZxP8mNbVr7TyUiOpLkJhGf/edit once",
        "call XF86VidModeGetGammaRamp before sphinx.io.SphinxI18nReader.line",
        "use V4L2_PIX_FMT_SRGGB14 and gnutls_x509_crl_privkey_sign2 there",
        "built v5.14-159-g884a7e5964e0 from 20241108190413-2d47ceb2692f",
        "on claude/analyze-test-coverage-01BnJsiXhLinMJyRe78R29e9 since monday",
        "digits of 0123456789ABCDEFGHJKMNPQRSTVWXYZ alone",
        "the asset main-7Qx2Lk9Z.js and third_party/skia/core/SkBlitRow_D32.cpp changed",
    ],
)
def test_names_ids_and_digests_stay_in_prose(text: str):
    assert redact(text) is text


def test_id_that_stands_alone_stays_so_two_sessions_never_become_one():
    ids = [drawn("base58", number) for number in range(50)]
    assert all(map(is_bare_token, ids[:5]))  # within a sentence each of these would go
    assert [redact(id_) for id_ in ids] == ids


def test_audit_of_many_texts_finds_the_same_bare_tokens():
    texts = [
        PROSE[number % 4].format(drawn(family, number))
        for family in FAMILIES
        for number in range(20)
    ]
    singly = [(place, secret) for place, text in enumerate(texts) for secret in find(text)]
    assert list(find_in_all(pa.array(texts))) == singly
    assert len(singly) > len(texts) / 2
