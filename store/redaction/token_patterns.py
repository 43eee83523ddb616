"""
Credentials recognised by themselves: their issuers' prefixes and shapes.

Each pattern has a literal cue that any match must contain, so that most texts cost a few substring
tests and no regular expression. Every expression is linear: a run of one character class either
matches or fails within its minimum length, bounded where something must follow. The most specific
patterns come first. No expression matches NUL, which `redact` puts in place of text that is already
redacted.

The prefixes, alphabets and lengths are facts that issuers publish, and that the rule sets of
https://github.com/gitleaks/gitleaks and https://github.com/trufflesecurity/trufflehog collect.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from store.redaction import secret_values
from store.redaction.secret_values import is_drawn, is_stored


@dataclass(frozen=True)
class Pattern:
    kind: str
    cue: str
    expression: str  # the secret is the group that matched, or all of it
    is_secret: Callable[[str], bool]
    flags: int = 0

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled expression, made for the first text with the cue: all of them would slow
        every start.
        """
        return re.compile(self.expression, self.flags)


def _at_start(prefix: str) -> str:
    """Return the expression of `prefix` at the start of a word, or after an escape: `\\n`, `%3D`.

    The preceding text is checked after the prefix is found, which `re` finds far faster.
    """
    prefix = re.escape(prefix)
    return rf"{prefix}(?:(?<![A-Za-z0-9]{prefix})|(?<=\\[nrt]{prefix})|(?<=%[0-9A-F]{{2}}{prefix}))"


HEX, ANY_HEX, LOWER, UPPER, BASE32 = "0-9a-f", "0-9A-Fa-f", "0-9a-z", "0-9A-Z", "A-Z2-7"
ALNUM, NAME, URLSAFE, DOTTED, BASE64 = r"A-Za-z0-9", r"\w", r"\w-", r"\w.=-", r"\w+/=-"

# kind, alphabet and least length of the part after the prefix, prefixes
_PREFIXED = (
    ("aws-access-key", BASE32, 16, "AKIA ASIA ABIA ACCA"),
    ("aws-bedrock-key", BASE64, 100, "ABSK bedrock-api-key-"),
    ("github-token", ALNUM, 36, "ghp_ gho_ ghu_ ghs_ ghr_"),
    ("github-pat", NAME, 36, "github_pat_"),
    (
        "gitlab-token",
        DOTTED,
        20,
        "glpat- gldt- glrt- glptt- glcbt- gloas- glft- glffct- glimt- glagent- glsoat- GR1348941",
    ),
    ("anthropic-key", URLSAFE, 32, "sk-ant-"),
    ("openrouter-key", URLSAFE, 32, "sk-or-"),
    ("openai-key", URLSAFE, 20, "sk-proj- sk-svcacct- sk-service- sk-admin- sk-lf- sk-"),
    (
        "slack-token",
        "A-Za-z0-9%-",
        16,
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xoxc- xoxd- xapp-",
    ),
    ("slack-token", r"\w.-", 60, "xoxe."),
    ("stripe-key", "A-Za-z0-9+/", 14, "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ whsec_"),
    ("google-api-key", URLSAFE, 35, "AIza"),
    ("google-oauth", URLSAFE, 20, "GOCSPX- 1//0"),
    ("google-oauth", DOTTED, 20, "ya29."),
    ("twilio-key", ANY_HEX, 32, "SK"),
    ("mailgun-key", HEX, 32, "key- pubkey-"),
    ("npm-token", ALNUM, 36, "npm_"),
    ("pypi-token", URLSAFE, 50, "pypi-"),
    ("huggingface-token", ALNUM, 30, "hf_ api_org_"),
    ("digitalocean-token", HEX, 40, "dop_v1_ doo_v1_ dor_v1_"),
    ("heroku-key", URLSAFE, 30, "HRKU-"),
    ("linear-key", ALNUM, 32, "lin_api_ lin_oauth_"),
    ("notion-token", ALNUM, 40, "ntn_"),
    ("api-secret", ALNUM, 16, "secret_"),
    ("vault-token", URLSAFE, 24, "hvs. hvb. hvr."),
    ("vault-token", ALNUM, 24, "s."),
    ("databricks-token", "0-9a-f-", 32, "dapi"),
    ("shopify-token", ANY_HEX, 32, "shpat_ shpca_ shppa_ shpss_"),
    ("age-key", UPPER, 50, "AGE-SECRET-KEY-1"),
    ("supabase-key", URLSAFE, 20, "sbp_ sb_secret_"),
    ("groq-key", ALNUM, 40, "gsk_"),
    ("xai-key", NAME, 40, "xai-"),
    ("perplexity-key", ALNUM, 32, "pplx-"),
    ("replicate-token", URLSAFE, 32, "r8_"),
    ("sentry-token", BASE64, 40, "sntrys_ sntryu_"),
    ("grafana-token", BASE64, 32, "glsa_ glc_ eyJrIjoi"),
    ("docker-token", URLSAFE, 24, "dckr_pat_ dckr_oat_"),
    ("postman-key", "A-Za-z0-9-", 40, "PMAK-"),
    ("pulumi-token", LOWER, 40, "pul-"),
    ("planetscale-token", DOTTED, 32, "pscale_tkn_ pscale_pw_ pscale_oauth_"),
    ("atlassian-token", BASE64, 40, "ATATT3 ATCTT3 BBDC-"),
    ("beamer-key", DOTTED, 44, "b_"),
    ("bitbucket-password", BASE64, 24, "ATBB"),
    ("ramp-key", ALNUM, 40, "ramp_id_ ramp_sec_"),
    ("figma-token", DOTTED, 36, "figd_ figp_ figo_"),
    ("tavily-key", URLSAFE, 24, "tvly-"),
    ("onepassword-token", BASE64, 100, "ops_"),
    ("adobe-secret", ALNUM, 32, "p8e-"),
    ("artifactory-key", ALNUM, 59, "AKCp cmVmd"),
    ("alibaba-key", ALNUM, 17, "LTAI"),
    ("bannerbear-key", HEX, 30, "bb_pr_ bb_ma_"),
    ("clickhouse-key", ALNUM, 38, "4b1d"),
    ("clojars-token", ALNUM, 60, "CLOJARS_ clojars_"),
    ("cloudflare-key", "0-9A-Za-z-", 150, "v1.0-"),
    ("contentful-token", URLSAFE, 43, "CFPAT-"),
    ("defined-key", DOTTED, 60, "dnkey-"),
    ("dropbox-token", DOTTED, 100, "sl."),
    ("duffel-token", DOTTED, 40, "duffel_test_ duffel_live_"),
    ("dynatrace-token", DOTTED, 80, "dt0c01. dt0s01. dt0s16."),
    ("easypost-key", ALNUM, 54, "EZAK EZTK"),
    ("endor-key", "A-Za-z0-9-", 16, "endr+"),
    ("facebook-token", ALNUM, 90, "EAAM EAAC EAAB EAAG"),
    ("finage-key", UPPER, 32, "API_KEY"),
    ("flutterwave-key", "0-9A-Za-z-", 12, "FLWSECK- FLWPUBK- FLWSECK_TEST- FLWPUBK_TEST-"),
    ("fly-token", BASE64, 43, "fo1_ fm1r_ fm1a_ fm2_"),
    ("fullstory-key", BASE64, 60, "na1. eu1."),
    ("gemini-exchange-key", ALNUM, 20, "master- account-"),
    ("gocardless-token", DOTTED, 35, "live_ live_pub_ test_pub_ test_"),
    ("hubspot-token", "0-9A-Za-z-", 36, "pat-na1- pat-na2- pat-eu1- pat-ap1-"),
    ("intra42-secret", HEX, 60, "s-s4t2ud- s-s4t2af-"),
    ("klaviyo-key", NAME, 34, "pk_"),
    ("stripe-key", ALNUM, 20, "pk_live_"),
    ("mapbox-token", r"\w.-", 60, "pk. sk."),
    ("locationiq-key", ALNUM, 32, "pk."),
    ("newrelic-key", URLSAFE, 19, "NRAK- NRII- NRIQ- NRBR- NRJS-"),
    ("nightfall-key", ALNUM, 32, "NF-"),
    ("nuget-key", LOWER, 43, "oy2"),
    ("octopus-key", UPPER, 25, "API-"),
    ("openshift-token", URLSAFE, 43, "sha256~"),
    ("plaid-token", "0-9a-f-", 36, "access-sandbox- access-development- access-production-"),
    ("pinecone-key", NAME, 60, "pcsk_"),
    ("portainer-token", BASE64, 20, "ptr_"),
    ("pubnub-key", "0-9a-z-", 36, "pub-c- sub-c- sec-c-"),
    ("razorpay-key", ALNUM, 14, "rzp_live_ rzp_test_"),
    ("recharge-key", NAME, 64, "sk_1 sk_2 sk_3 sk_5 sk_10 sk_test_"),
    ("robinhood-key", "0-9A-Fa-f-", 36, "rh-api-"),
    ("salad-key", NAME, 20, "salad_cloud_"),
    ("salesforce-key", r"\w.+/=", 80, "3MVG9 5AEP861"),
    ("scalingo-token", URLSAFE, 48, "tk-us-"),
    ("settlemint-token", ALNUM, 16, "sm_aat_ sm_pat_ sm_sat_"),
    ("square-token", URLSAFE, 22, "EAAA sq0atp- sq0csp- sq0idp- sq0idb- sq0csb-"),
    ("tailscale-key", URLSAFE, 20, "tskey-"),
    ("trufflehog-key", HEX, 16, "thog-key- thog-secret-"),
    ("twitter-bearer", "A-Za-z0-9%", 80, "AAAAAAAAAAAAAAAAAAAAA"),
    ("yandex-key", URLSAFE, 35, "AQVN YCA YCM YCP"),
    ("jwt", r"\w+/=-", 60, "ZXlK"),
)
_LOOSE = frozenset(  # words start like these too
    "sk- secret_ pypi- b_ xai- s. key- live_ test_ pk_ pk. sk. master- account- API-"
    " ptr_ oy2 sl. na1. eu1. SK EAAA YCA YCM YCP cmVmd v1.0- NF- 4b1d API_KEY"
    " 1//0 ops_".split()
)
UUID = r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
_WORD = r"(?<![\w.-])"
_SHAPED = (
    *(
        ("launchdarkly-key", prefix, _at_start(prefix) + UUID)
        for prefix in ("sdk-", "api-", "mob-")
    ),
    ("mnemolog-token", "mnemo_", _at_start("mnemo_") + r"[0-9a-f]{12}_[\w-]{43}"),
    ("sendgrid-key", "SG.", _at_start("SG.") + r"[\w-]{16,40}\.[\w-]{16,80}"),
    (
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+]{20,})",
    ),
    ("discord-webhook", "/webhooks/", r"/api/webhooks/([0-9]{17,20}/[\w-]{40,})"),
    ("teams-webhook", "/webhookb2/", r"/webhookb2/([\w@-]{60,}/IncomingWebhook/[\w/-]{32,})"),
    ("zapier-webhook", "hooks.zapier.com/", r"hooks\.zapier\.com/hooks/catch/([\w/]{12,})"),
    ("tines-webhook", ".tines.com/", r"\.tines\.com/webhook/([0-9a-z]{32}/[0-9a-z]{32})"),
    (
        "jwt",
        "eyJ",
        r"eyJ(?:(?<![\w-]eyJ)|(?<=\\[nrt]eyJ))[\w-]{10,}+\.[\w-]{10,}+(?:\.[\w-]*+){0,3}",
    ),
    ("azure-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{40,}={0,2})"),
    ("azure-key", "SharedAccessKey=", r"SharedAccessKey=([A-Za-z0-9+/]{40,}={0,2})"),
    ("azure-key", "+ACR", r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{42}\+ACR[A-Za-z0-9]{6}\b"),
    ("azure-sas", "sig=", r"sig=(?<![A-Za-z0-9]sig=)([A-Za-z0-9%+/_-]{40,}={0,2})"),
    ("azure-client-secret", "Q~", _WORD + r"[\w.~-]{3}[0-9]Q~[\w.~-]{31,}"),
    ("azure-refresh-token", ".A", r"(?<![\w.-])[01]\.A[\w-]{50,}(?:\.[\w-]{1,})*"),
    ("telegram-token", ":A", r"(?<![0-9])[0-9]{8,10}:A[\w-]{33,}"),
    ("discord-token", ".", r"(?:(?<![\w.-])|(?<=\\[nrt]))[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}"),
    ("sentry-dsn", "://", r"://([0-9a-f]{32})(?::[0-9a-f]{32})?@[\w.-]{1,100}/[0-9]"),
    ("airtable-token", "pat", _at_start("pat") + r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("airtable-token", ".v1.", _WORD + r"[A-Za-z0-9]{5,80}\.v1\.[\w-]{5,200}\.[0-9a-f]{20,}"),
    ("authress-key", ".acc", r"(?:sc|ext|scauth|authress)_\w{5,30}\.\w{4,6}\.acc[\w.+/=-]{40,}"),
    ("harness-key", "at.", r"\b[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    ("terraform-token", ".atlasv1.", r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}"),
    ("cloudflare-key", "cf", _at_start("cf") + r"(?:[uak]t?_[A-Za-z0-9]{40}[0-9a-f]{8})"),
    (
        "onepassword-key",
        "A3-",
        _at_start("A3-") + r"[0-9A-Z]{6}-[0-9A-Z]{6}-?[0-9A-Z]{5}(?:-[0-9A-Z]{5}){3}",
    ),
    ("maxmind-key", "_mmk", _WORD + r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    ("mailchimp-key", "-us", r"(?<![A-Za-z0-9])[0-9a-f]{32}-us[0-9]{1,2}\b"),
    ("mailgun-key", "-", r"(?<![\w-])[0-9a-h]{32}-[0-9a-h]{8}-[0-9a-h]{8}(?![\w-])"),
    ("newrelic-key", "NR", r"\b\w{32,40}FFFFNRAL\b|\b(?:AA|eu01xx)[0-9a-f]{36,40}-NRMA\b"),
    ("ngc-key", ":", rf"\b[A-Za-z0-9]{{26}}:{UUID}"),
    ("salesforce-token", "!", r"\b00[A-Za-z0-9]{13}![\w.]{90,}"),
    ("stripe-secret", "_secret_", r"\b(?:pi|seti|cs)_[A-Za-z0-9]{14,}_secret_[A-Za-z0-9]{20,}"),
    ("tableau-secret", "==:", r"[A-Za-z0-9+/]{22}==:[A-Za-z0-9]{32}"),
    ("facebook-token", "|", r"(?<![0-9])[0-9]{15,16}(?:\||%7C)[\w-]{27,40}"),
    ("webex-token", "_", _WORD + rf"[A-Za-z0-9]{{64}}_[A-Za-z0-9]{{4}}_{UUID}"),
    ("voiceflow-key", "VF.", r"\bVF\.(?:(?:DM|WS)\.)?[0-9A-Fa-f]{24}\.[A-Za-z0-9]{16}"),
    ("yandex-token", "t1.", r"\bt1\.[\w-]{1,200}={0,2}\.[\w-]{86}={0,2}"),
    ("zoho-token", "1000.", r"(?<![\w.])1000\.[0-9a-f]{32}\.[0-9a-f]{32}"),
    ("gitlab-session", "_gitlab_session=", r"_gitlab_session=([0-9a-z]{32})"),
    ("sidekiq-login", ".contribsys.com", r"//([0-9a-f]{8}:[0-9a-f]{8})@\w{4,10}\.contribsys\.com"),
)
# any issuer's, so the last: `acme_`, `acme-`, `acme.` and a value drawn at random behind it
_ANY_PREFIX = r"(?<![\w.~-])[A-Za-z][\w.~-]{18,}[\w-](?:[+/=][\w+/=~-]*+)?(?!\()"

_KEY_BODY = r"[^-\x00]*+(?:-(?!----)[^-\x00]*+)*+"  # up to the next five dashes
_KEY_LINES = r"(?:(?:[\s>|#*\"',+]|\\{1,4}[nrt])*+[A-Za-z0-9+/]{16,}+={0,2})+"  # a block cut short
_BLOCKS = (
    ("private-key", "PRIVATE KEY-----", r"(?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY"),
    ("pgp-private-key", "PGP PRIVATE KEY BLOCK", r"PGP PRIVATE KEY BLOCK"),
)


def _blocks() -> Iterator[Pattern]:
    for kind, cue, header in _BLOCKS:
        regex = rf"-----BEGIN {header}-----(?:{_KEY_BODY}-----END {header}-----|{_KEY_LINES})"
        yield Pattern(kind, cue, regex, secret_values.is_key_block)
    putty = rf"Private-Lines: [0-9]{{1,4}}{_KEY_LINES}"
    yield Pattern("putty-private-key", "Private-Lines:", putty, secret_values.is_key_block)


def _words() -> Iterator[Pattern]:
    for kind, alphabet, least, prefixes in _PREFIXED:
        for prefix in prefixes.split():
            regex = rf"{_at_start(prefix)}[{alphabet}]{{{least},}}"
            is_secret = secret_values.is_drawn if prefix in _LOOSE else secret_values.is_varied
            yield Pattern(kind, prefix, regex, is_secret, re.ASCII)
    for kind, cue, regex in _SHAPED:
        yield Pattern(kind, cue, regex, secret_values.is_varied, re.ASCII)
    yield Pattern("token", "", _ANY_PREFIX, secret_values.is_prefixed_token, re.ASCII)


BLOCKS = tuple(_blocks())  # keys of many lines
WORDS = tuple(_words())  # credentials without white space in them; cues are case-sensitive
ISSUED = (*BLOCKS, *WORDS)


# The values of a cookie header and of a Kubernetes Secret: their names are anybody's, so they are
# recognised by their container.

_COOKIES = re.compile(r"cookie[\"']?\]?(?:[ ]?[:=][ ]?|[ ])[\"']?([^\n\x00\"']{16,}+)")
_COOKIE = re.compile(r"[^\s=;]=([^;\s,\x00]{16,}+)")
_SECRET = re.compile(r"kind(?<!\wkind)\\?[\"']?:[ ]?\\?[\"']?secret\b(?!\w)")
_DOCUMENT = re.compile(r"^---", re.MULTILINE)
_DATA = re.compile(r"^([ ]*)(?:string)?data:[ ]*\n((?:\1[ ]++[^\n]*+\n?)++)", re.MULTILINE)
_LINE = re.compile(
    r"^[ ]++(?:[\"']?[\w.-]{1,253}+[\"']?:[ ]++[\"']?([^\s\"'|>#\x00][^\s\"'\x00]{3,}+)"
    r"|([a-z0-9+/=]{16,}+)$)",  # of a value on lines of its own
    re.MULTILINE | re.ASCII,
)
_OBJECT = re.compile(r"\"(?:string)?data\":\s{0,9}\{([^{}]{1,}+)\}")
_MEMBER = re.compile(r":\s{0,9}\"([^\"\\\s\x00]{4,}+)\"")


def container_secrets(lowered: str) -> Iterator[tuple[str, int, int]]:
    """Yield the kind, start and end of possible secrets in lower-cased text; `is_container_secret`
    judges them in the original case.
    """
    if "cookie" in lowered:
        for header in _COOKIES.finditer(lowered):
            for pair in _COOKIE.finditer(lowered, *header.span(1)):
                yield "cookie", *pair.span(1)
    if "secret" in lowered and "data" in lowered and _SECRET.search(lowered):
        starts = [0, *(match.end() for match in _DOCUMENT.finditer(lowered)), len(lowered)]
        for start, end in pairwise(starts):
            if _SECRET.search(lowered, start, end):
                for blocks, values in ((_DATA, _LINE), (_OBJECT, _MEMBER)):
                    for block in blocks.finditer(lowered, start, end):
                        for value in values.finditer(lowered, *block.span(block.lastindex or 0)):
                            yield "kubernetes-secret", *value.span(value.lastindex or 0)


def is_container_secret(kind: str, value: str) -> bool:
    return is_drawn(value) if kind == "cookie" else is_stored(value)
