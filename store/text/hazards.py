"""
Hazards: advice from any author that an agent must not see before a person accepted it.

Five kinds: fetching and running code; changing registries, remotes and proxies; turning off checks;
handing out secrets; working without asking. A hazard is an order or a standing habit ("we always
..."), in English, German, French or Spanish, or a command in any language. A prohibition is
harmless ("never skip the tests"), so each match is read with the negation before it and the
prohibition behind. Hazards are found by structure (a verb, its object, the continuation) and not by
lone words: most texts that name a token, a hook or a proxy are about a program.
"""

import re
from collections.abc import Collection
from functools import cache, lru_cache
from typing import Literal

Hazard = Literal["fetch and run", "source", "check", "secret", "unasked"]

LOOKED_AT = 4_000  # characters of a text


# All patterns match lower case: with IGNORECASE Python tries every branch at every letter. Each of
# ours begins at a word or a flag.
_BEGINS = r"(?:\b(?=\w)|(?=--))"


def _any(*patterns: str) -> str:
    return f"{_BEGINS}(?:{'|'.join(f'(?:{pattern})' for pattern in patterns)})"


# compiled on first use: compiling all of them costs as much as many an answer
_compiled = cache(re.compile)


_GAP = r"(?:[\w'./@-]+ ){0,3}"  # words between a verb and its object
_URL = r"(?:https?://|git\+|git@|ssh://|git://|github:)"
_HOST = r"(?:[a-z0-9-]+\.)+[a-z]{2,}\b"

_FETCH_AND_RUN = _any(
    r"\b(?:curl|wget|iwr|irm|invoke-(?:webrequest|restmethod)|fetch)\b[^|\n]{0,200}\|\s*"
    r"(?:sudo\s+)?(?:-\S+\s+)*(?:env\s+)?(?:(?:ba|z|da|k|fi)?sh|python[\d.]*|node|perl"
    r"|ruby|iex|pwsh|powershell)\b",
    r"\b(?:(?:ba|z|da|k)?sh|source|eval|python[\d.]*)\s+(?:-\S+\s+)*[\"']?(?:<\(|\$\(|`)\s*(?:"
    r"curl|wget)\b",
    r"\b(?:iex|invoke-expression)\b.{0,80}(?:https?://|downloadstring|iwr|irm)",
    rf"\bpip[\d.]*\s+install\s+(?:-\S+\s+)*{_URL}",
    rf"\b(?:npx|bunx|uvx|pnpm dlx|yarn dlx|pipx run|deno run|go run|npm (?:i|install)|cargo in"
    rf"stall --git)"
    rf"\s+(?:-\S+\s+)*{_URL}",
    r"\b(?:download|fetch)\b.{0,60}\b(?:and|then) (?:run|execute|source)\b",
    rf"\b(?:run|execute|source)\b {_GAP}(?:script|installer|binary|code)\b.{{0,20}}\b(?:from"
    rf"|at) {_URL}",
    r"\blad\w*\b.{0,80}\bherunter und (?:führ\w*|start\w*)",
    r"\btélécharg\w+\b.{0,60}\bet (?:exécut|lanc)\w+",
    r"\bdescarga\w*\b.{0,60}\by (?:ejec[uú]t|corre)\w*",
)
_REGISTRY = (
    r"(?:registry|mirror|package index|index[- ]url|prox(?:y|ies)|"
    r"paket(?:quelle|index)|registr(?:e|o)|miroir|espejo|registrierung)"
)
_GOES = (
    r"(?:go|goes|come|comes|gehen|geht|kommen|kommt|laufen|läuft|passent?|viennent|vienen?|van|va|"
    r"pasan?)"
)
_SOURCE = _any(
    r"--(?:extra-)?index-url\b",
    r"--registry[= ]",
    r"--trusted-host\b",
    r"\b(?:npm|yarn|pnpm|bun) config set (?:\S*registry|\S*proxy|strict-ssl|cafile)",
    r"\bpip[\d.]* config set\b",
    r"\bgit remote (?:add|set-url|rename)\b",
    r"\bgit config\b[^\n]{0,40}(?:proxy|sslverify|insteadof|pushurl)",
    r"\b(?:pip_(?:extra_)?index_url|uv_index_url|npm_config_registry|goproxy|https?_proxy"
    r"|all_proxy|node_extra_ca_certs|requests_ca_bundle|ssl_cert_file)\s*=",
    r"\bregistry\s*=\s*https?://",
    rf"\b(?:use|set|change|switch|point|nimm|nutze|verwende|nutzen|verwenden|stell\w*|utilise[rz"
    rf"]?|mets|configure[rz]?|usa|usar|usamos|utiliza|cambia|configura)\b"
    rf" (?:[^\s.;!?]+ ){{0,4}}{_REGISTRY}\b.{{0,20}}(?:{_HOST}|{_URL})",
    rf"\b(?:use|set|point|nimm|nutze|verwende|utilise[rz]?|usa|utiliza)\b .{{0,30}}(?:{_HOST}"
    rf"|{_URL})\S* (?:as|als|comme|como) .{{0,16}}{_REGISTRY}\b",
    rf"\b{_REGISTRY} (?:is|ist|est|es|=) (?:now )?(?:{_HOST}|{_URL})",
    rf"\b(?:installs?|installations?|packages?|dependenc\w+|pakete?|abhängigkeiten|paquets?"
    rf"|dépendances|paquetes?|dependencias|requests?|traffic|images?)\b"
    rf" (?:[\w-]+ ){{0,3}}(?:{_GOES}|are (?:installed|pulled|fetched|resolved)) (?:[\w-]+ ){{0"
    rf",2}}(?:through|via|from|over|über|aus|von|durch|par|de|depuis|por|desde) (?:{_HOST}"
    rf"|{_URL})",
    rf"\b(?:install|resolve|installier\w*|hole?|installe[rz]?|instala\w*)\b (?:[\w-]+ ){{1,4}}"
    rf"(?:from|von|aus|depuis|de|desde) (?:{_HOST}|{_URL})",
    rf"\b(?:push|mirror|pushe?|pousse[rz]?|empuja|sube|envía)\b (?:[\w-]+ ){{0,5}}(?:to"
    rf"|nach|zu|auf|vers|sur|a) (?:[\w-]+ ){{0,3}}(?:{_URL}|[\w.-]+@{_HOST}:|{_HOST}/\S)",
    r"\b(?:push|mirror)\b (?:[\w-]+ ){0,5}(?:as well )?to (?:a|another|the) (?:second|other"
    r"|new|mirror|backup|third) (?:remote|mirror|repo\w*)",
)
# safeguards; `_SURE` follows an order to leave them out
_CHECK = (
    r"(?:(?:security|vulnerability|secret|dependency|virus|license) (?:scan\w*|check\w*"
    r"|audit\w*|review\w*)|(?:unit |integration |e2e |all |any )?tests?(?: suite)?|test suite"
    r"|"
    r"lint(?:er|ers|ing)?|eslint|ruff|mypy|type ?check\w*|scanners?|sast|npm audit|pip-audit|"
    r"(?:git|pre-?commit|pre-?push|commit) hooks?|pre-?commit|code ?reviews?|reviews?|sandbox"
    r"(?:ing)?|"
    r"permission (?:prompts?|checks?)|safety (?:checks?|prompts?)|guardrails?|branch protections?|"
    r"(?:(?:tls|ssl|https|signature|certificate|cert|host[- ]key|checksum|gpg)[- ])+(?:verifi"
    r"cation|validation|check(?:s|ing)?|errors?|warnings?)|"
    r"(?:the )?(?:tls|ssl|certificate) checks?|commit signing|ci checks?|"
    r"testsuite|codeprüfung|zertifikats?prüfung\w*|signaturprüfung\w*|sicherheits\w*(?:prüfun"
    r"g|scan|scanner)\w*|"
    r"v[ée]rification (?:des? |du )?(?:certificats?|signatures?|tls|ssl)|linters?|analyseur d"
    r"e s[ée]curit[ée]|revue de code|relecture|"
    r"pruebas|verificaci[oó]n (?:de )?(?:los? )?(?:certificados?|firmas?|tls|ssl)|esc[aá]ner "
    r"de seguridad|revisi[oó]n de c[oó]digo|zertifikatsprüfung)"
)
_ENDS = (
    r"(?=\s*(?:$|[.,;:!?)\u2014-]|(?:and|or|here|hier|anymore|any more|at all|ever|completely"
    r"|entirely|always|und|oder|et|ou|ici|y|aqu[ií]|before|because|since|so|when|if|to"
    r"|for|on|in|during|vor|bei|avant|antes|immer|pour|para|siempre|toujours|while|as|weil"
    r"|car|porque)\b))"
)
_LONE = (
    r"(?=\s*(?:$|[.;:!?)\u2014]|,|(?:and|or|here|hier|anymore|any more|at all|ever|und"
    r"|oder|et|ou|ici|y|aqu[ií]|because|since|they|weil|car|porque|in (?:this|diesem|dieser"
    r"|ce|este)|on this)\b))"
)
_OFF = (
    r"\b(?:skip|disable|bypass|circumvent|turn off|switch off|shut off|deactivate|drop"
    r"|omit|leave out|silence|suppress|get around|ignore all|ignore the|"
    r"überspring\w*|deaktivier\w*|umgeh\w*|lass\w*|schalte?|ignorier\w*|"
    r"saute[rz]?|désactive[rz]?|contourne[rz]?|ignore[rz]?|passe[rz]? outre|"
    r"omite|omitir|desactiva|desactivar|salta|saltar|ignora|evita)"
)
_CHECK_OFF = _any(
    rf"{_OFF} (?:(?:the|all|any|every|our|those|its|your|both|die|den|das|der|alle|les?"
    rf"|la|tous|toutes|los|las|el|todos|todas|local|slow|failing|required|security|linter"
    rf"|scanner|and|und|et|y)\W+){{0,4}}{_CHECK}{_ENDS}",
    rf"\b(?:turn|switch|shut|schalte?) (?:(?:the|all|our|die|den|das|alle) )*{_CHECK} (?:off"
    rf"|aus|ab)\b",
    r"(?<![\w-])(?:--no-verify|--no-gpg-sign|--no-sandbox|--insecure|--disable-sandbox"
    r"|--skip-tests|-dskiptests|--no-check-certificate|--allow-unauthenticated|--dangerously-[\w-"
    r"]+)",
    r"\b(?:verify\s*=\s*false|sslverify\s*(?:=|\s)\s*false|strict-ssl\s*(?:=|\s)\s*false"
    r"|node_tls_reject_unauthorized\s*=\s*['\"]?0|stricthostkeychecking[= ]no|rejectunauthori"
    r"zed\s*:\s*false|pythonhttpsverify\s*=\s*0)",
    r"\b(?:merge|push|ship|commit|deploy|release)\b (?:[\w-]+ ){0,4}without (?:any |a "
    r"|the )?(?:code )?(?:reviews?|tests?|checks?|linting|scan\w*)",
    r"\b(?:merge|pushe?|committe|deploye?)\b (?:[\wäöüß-]+ ){0,4}ohne (?:code-?)?(?:review"
    r"|tests?|prüfung)",
)
_NOT = (
    r"\b(?:never|do not|don'?t|don\u2019t|no need to|need not|must not|mustn'?t|should ?n[o']"
    r"t|shouldn'?t|not to|won'?t|no longer|"
    r"nie(?:mals)?|nicht|kein\w*|ne|n'|jamais|nunca|jam[aá]s|no)\b"
)
_CHECK_NOT_RUN = _any(
    rf"{_NOT} (?:[\w']+ )?(?:run|use|execute|enable|start|call|require|bother with|wait for"
    rf"|do|führe|starte|lance[rz]?|exécute[rz]?|ejecutes?|ejecutar|corras?|uses)"
    rf" (?:(?:the|any|all|our|a|die|den|das|les?|la|los|las|el|pas|jamais) )*(?:{_CHECK} ?(?:a"
    rf"nd|or|,|und|oder|et|ou|y|o) ?(?:the )?)?{_CHECK}{_LONE}",
    r"\b(?:führe?|lass\w*|starte?)\b (?:[\wäöüß-]+ ){0,3}(?:tests?|linter|scanner|\w*prüfun"
    r"g\w*) (?:[\wäöüß-]+ ){0,2}(?:nicht|nie|niemals)\b",
)
_SECRET_NAME = (
    r"(?:\.env(?:\.\w+)? ?(?:files?)?|(?:api|access|auth|private|ssh|secret|signing|deploy"
    r"|aws|github|gitlab|npm|prod\w*|session|bearer)[- ](?:keys?|tokens?|secrets?|credentials?"
    r"|passwords?)|"
    r"tokens?|credentials?|secrets?|passwords?|passphrases?|id_rsa|private keys?|"
    r"passw[oö]rt\w*|zugangsdaten|schlüssel|geheimnisse?|mots? de passe|jetons?|identifiants"
    r"|cl[ée]s? (?:api|priv[ée]e?s?)|"
    r"contrase[ñn]as?|credenciales|claves? (?:api|privadas?)|secretos?)"
)
_SECRET = _any(
    r"\b(?:commit|check in|push|paste|upload|send|post|share|hard-?code|e-?mail|exfiltrate"
    r"|print|echo|dump|publish|reveal|forward|committe|pushe|schick\w*|sende|poste|kopiere"
    r"|veröffentliche|"
    r"committez?|commite[rz]?|envoie[rz]?|envoyez|colle[rz]?|téléverse[rz]?|partage[rz]?"
    r"|publie[rz]?|commitea|commitear|sube|subir|env[ií]a|enviar|pega|comparte|publica"
    r"|manda)"
    rf"\b (?:(?:the|your|our|my|all|any|every|its|their|these|es|me|us|him|them|her|die"
    rf"|das|den|der|dein\w*|unser\w*|alle|les?|la|vos|tes|nos|tous|los|las|el|tus?|todos"
    rf"|todas|contents? of|full|whole|live|real|value of|plain|file|fichier|archivo|datei)\s+){{"
    rf"0,5}}{_SECRET_NAME}"
    r"(?=\s*(?:$|[.,;:!?)\u2014]|(?:to|into|in|so|with|here|there|at|and|or|as|when|if"
    r"|by|on|via|along|back|too|zu|an|nach|mit|hier|damit|ins?|dans|à|au|pour|avec|ici"
    r"|a|en|con|para|aqu[ií]|al|und|et|y)\b))",
    rf"\blade?\b (?:[\wäöüß.-]+ ){{0,3}}{_SECRET_NAME} (?:[\wäöüß.-]+ ){{0,3}}hoch\b",
    rf"\b(?:ask|prompt) (?:the )?(?:user|me|developer|them|him|her)? ?for (?:(?:the|their"
    rf"|his|her|my|an?|root|admin|sudo) )*{_SECRET_NAME}\b(?! (?:reset|field|form))",
)
_KEPT_SAFE = re.compile(
    r"\s*(?:[\w-]+ )?(?:to|into|in|ins?|dans|en|à|a) (?:(?:the|our|a|an|den|die|das|le"
    r"|la|el) )?(?:\.gitignore|\.env\b|vault|key ?chain|1password|bitwarden|secret(?:s)? mana"
    r"ger|environment|env\b|github secrets|ci secrets|tresor|coffre|b[oó]veda)",
)
_BEFORE_WHAT = (
    r"(?:(?:(?:me|us|the user|anyone) )?for (?:confirmation|permission|approval|consent"
    r"|my ok|an ok)|(?:me|us|the user|anyone|anybody)\b(?! (?:for|about|which|what|who"
    r"|how|where|when))|before\b|first\b|again\b|again before|whether to\b|if (?:you|it)\b"
    r"|nothing|questions?(?=\s*(?:$|[.,;!])))"
)
_UNASKED = _any(
    rf"\b(?:never|do not|don'?t|don\u2019t|no need to|need not|stop|without|you needn'?t"
    rf"|must not|should not|shouldn'?t)\s+(?:ever )?(?:ask|asking|prompt|prompting|wait"
    rf"|waiting|confirm|confirming|request|requesting|seek|seeking)\b(?=\s*(?:$|[.,;:!?]"
    rf"|{_BEFORE_WHAT}|and (?:just|simply)|just\b))",
    r"\b(?:auto[- ]?approve|auto[- ]?accept|auto[- ]?confirm)\b (?:(?:all|every|any|the"
    r"|tool|shell|command|commands|calls?|edits?|changes?|requests?)\s*)+",
    r"\b(?:run|push|deploy|delete|merge|commit|install|execute|apply|proceed|publish|release"
    r"|approve|act|go ahead)\b (?:[\w./'-]+ ){0,6}without (?:any |my |a |further |user )?(?:a"
    r"sking|confirmation|confirming|permission|approval|consent|prompting)",
    r"\b(?:yolo mode|bypass(?:ing)? permissions|skip(?:ping)? (?:all |the )?(?:permission"
    r"|confirmation|approval)s?(?: (?:prompt|check|step|dialog)s?)?)\b",
    r"\bconfirmations? (?:is|are) (?:never|not) (?:needed|required|necessary)",
    r"\bno (?:confirmation|approval|permission) (?:is |are )?(?:needed|required|necessary)",
    r"\bfrag\w*\b (?:mich |uns |den \w+ |vorher )*(?:nie|niemals|nicht|nie mehr)\b|\b(?:nie"
    r"|niemals|nicht)\s+(?:mehr )?(?:nach)?(?:zu)?fragen\b|\bohne (?:nachzufragen|zu fragen"
    r"|rückfragen?|nachfragen?|bestätigung)",
    r"\bne (?:me |nous |lui )?demande\w*\s+(?:jamais|pas|plus)|\bsans (?:demander|confirmatio"
    r"n|autorisation|validation|rien demander)|\bne (?:jamais|pas|plus) (?:me )?demander",
    r"\b(?:no|nunca|jam[aá]s) (?:me |nos |le )?(?:pidas|preguntes|pedir|preguntar|solicites"
    r"|pidan) ?(?:confirmaci[oó]n|permiso|antes|nunca|nada|al usuario)?|\bsin (?:preguntar"
    r"|confirmaci[oó]n|pedir \w+|autorizaci[oó]n|permiso)",
)

_KINDS: tuple[tuple[Hazard, str, bool], ...] = (
    ("fetch and run", _FETCH_AND_RUN, True),
    ("source", _SOURCE, True),
    ("check", _CHECK_OFF, True),
    ("check", _CHECK_NOT_RUN, False),
    ("secret", _SECRET, True),
    ("unasked", _UNASKED, True),
)
_NEGATES = re.compile(
    r"\b(?:never|not|no|nobody|nothing|cannot|avoid|stop|instead of|rather than|forbid\w*"
    r"|refuse\w*|reject\w*|without|"
    r"nie|niemals|nicht|kein\w*|ohne|statt|vermeide\w*|niemand|verbiete\w*|jamais|pas|ne"
    r"|sans|aucun\w*|[ée]vite\w*|au lieu de|nunca|jam[aá]s|sin|nadie|ning[uú]n\w*)\b|n['\u2019"
    r"]t\b|\bdont\b|\bn['\u2019]",
)
_FORBIDS = re.compile(
    r"[^.;!?\n]{0,40}?\b(?:is|are|ist|sind|est|sont|es|son|was)\b (?:strictly |streng )?(?:fo"
    r"rbidden|banned|not allowed|prohibited|disallowed|refused|blocked|never|verboten|nicht e"
    r"rlaubt|interdit\w*|prohibid\w*)\b"
    r"|[^.;!?\n]{0,60}\b(?:nicht|niemals|nie|pas|jamais)\b",
)
_BREAK = re.compile(
    r"[.;:!?](?=\s|$)|\n|\u2014| - |\b(?:but|aber|"
    r"sondern|mais|pero|sino|so|also|donc|as[ií] que)\b|,\s*(?=(?:\w+\s+)?$)",
)


# a text with a hazard of the kind has at least one of these: searched first
_STEMS: dict[Hazard, tuple[str, ...]] = {
    "fetch and run": (
        *("curl", "wget", "iwr", "irm", "invoke-", "iex", "git+", "http", "git@", "ssh://"),
        *("git://", "github:", "download", "fetch", "herunter", "télécharg", "descarga"),
    ),
    "source": (
        *("regist", "mirror", "prox", "index", "remote", "miroir", "espejo", "paketquelle"),
        *("config set", "config", "--trusted-host", "ca_", "cert", "push", "install", "packag"),
        *("dependenc", "paket", "abhängig", "paquet", "dépend", "traffic", "request", "image"),
        *("pousse", "empuja", "sube", "envía", "hol", "_index_url"),
    ),
    "check": (
        *("--", "verif", "reject", "verify", "stricthost", "tests", "test", "lint", "ruff"),
        *("mypy", "type", "scan", "sast", "audit", "hook", "commit", "review", "sandbox"),
        *("permission", "safety", "guardrail", "protection", "valid", "check", "prüfung", "cert"),
        *("zertif", "tls", "ssl", "signing", "revue", "relecture", "prueb", "esc", "revis"),
    ),
    "secret": (
        *(".env", "key", "token", "credential", "secret", "password", "passphrase", "id_rsa"),
        *("passwort", "passwört", "zugangsdaten", "schlüssel", "geheimnis", "passe", "jeton"),
        *("identifiants", "clé", "cle", "contrase", "credencial", "clave"),
    ),
    "unasked": (
        *("ask", "prompt", "wait", "confirm", "request", "seek", "auto", "without", "yolo"),
        *("bypass", "skip", "approv", "permi", "frag", "frage", "ohne", "demand", "sans"),
        *("pid", "pregunt", "solicit", "pedir", "sin "),
    ),
}


def _one_of(words: Collection[str]) -> str:
    """Return a pattern of some words that reads their common beginnings once."""
    rests: dict[str, set[str]] = {}
    for word in words:
        rests.setdefault(word[0], set()).add(word[1:])
    branches = (
        re.escape(letter) + ("" if "" in rest else _one_of(rest))
        for letter, rest in sorted(rests.items())
    )
    return f"(?:{'|'.join(branches)})"


_STEM = _one_of(set().union(*_STEMS.values()))  # most texts hold none


# characters that IGNORECASE folds to one letter, and lower() does not
_ALIKE = str.maketrans({"\u017f": "s", "\u0130": "i", "\u0131": "i"})


@lru_cache(maxsize=4_096)
def hazard(text: str) -> Hazard | None:
    """Return the kind of the first hazardous advice in a text; None if there is none."""
    text = text[:LOOKED_AT].translate(_ALIKE).lower()
    if _compiled(_STEM).search(text) is None:
        return None
    possible = {kind for kind, stems in _STEMS.items() if any(map(text.__contains__, stems))}
    for kind, pattern, is_undone in _KINDS:
        for match in _compiled(pattern).finditer(text) if kind in possible else ():
            if is_undone and _is_negated(text, match):
                continue
            if kind == "secret" and _KEPT_SAFE.match(text, match.end()):
                continue
            return kind
    return None


def _is_negated(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 120) : match.start()]
    clause = _BREAK.split(before)[-1]
    return bool(_NEGATES.search(clause)) or bool(_FORBIDS.match(text, match.end()))
