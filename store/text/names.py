"""
Names in ordinary notes: people, projects, products and places, hosts and tickets.

A capital inside a sentence names something. One at a sentence's start may be any word's, so such a
word is a guess: a build counts it where other memories have the same name inside a sentence
(`store.derived.entities`). German writes every noun so: there a name needs a context. Titles and
shouted words are no names. Precision comes first; every expression is linear.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import msgspec

NameKind = Literal["name", "host", "ticket"]
MOST_WORDS = 3  # of one name: a longer run of capitals is a title
LONGEST_NAME = 60

_CAPITAL = "".join(chr(code) for code in range(0x530) if chr(code).isupper())
_REST = rf"[\w+]*(?:-(?:[{_CAPITAL}]|[0-9])\w*)*"
_RUN = re.compile(  # a set first, so that the search skips to the next capital
    rf"[{_CAPITAL}](?<![\w@#$/\\.=<-].){_REST}(?: [{_CAPITAL}]{_REST})*(?![\w/\\@=(]|\.\w|::)"
)
_HOST = re.compile(
    r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}|"
    r"(?:[a-z0-9][a-z0-9-]{0,62}\.){1,6}(?:com|org|net|io|dev|app|cloud|gov|edu|info|local|lan|"
    r"internal|intern|home|corp|example|test|de|fr|es|nl|uk|eu|us|ca|ch|dk|se|fi|no|pl|cz|jp|cn|"
    r"kr|br|mx|tr|ru|au|nz)|"
    r"[a-z][a-z0-9]{1,30}(?:-[a-z0-9]{1,30}){1,5}"
)
_TICKET = re.compile(r"([A-Z][A-Z0-9]{1,9})-[0-9]{1,6}")
_REPOSITORY = re.compile(r"(?<![\w@./:-])[a-z][\w-]{1,38}/[a-z][\w.-]{1,60}(?![\w/])")
_OF_REPOSITORIES = re.compile(r"\b(?:mono)?repo(?:s|sitory|sitories)?\b|git(?:hub|lab)", re.I)
_HONORED = re.compile(r"(?:([一-龯々]{1,4})|([ァ-ヶー]{2,10}))(?:さん|様|氏)")
_CJK = re.compile(r"[぀-ヿ一-龯가-힣]")
_AFTER = re.compile(r" (?:and |[a-zß-öø-ÿ]+)")
_SIGNS = ("`", "{", "=", "|", ";", "<", "\n    ", "\n\t")
_OPENING, _CLOSING = "([{<\"'“„«*_", ")]}>\"'”“»*_,;:!?.…"
_PORT = re.compile(r":[0-9]{1,5}$")
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")
_NO_PROSE = re.compile(  # code and tables: their capitals are keywords and columns
    r"```[\s\S]*?(?:```|\Z)|`[^`\n]*`|^(?:\t| {4}).*$|"
    r"^[^{}<>=|;\n]*+[{}<>=|;][^{}<>=|;\n]*+[{}<>=|;].*$",
    re.MULTILINE,
)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# words that begin sentences and name nothing, in folded case: function words, imperatives, days
_NO_NAMES = _set(
    """a about above accept according across add after again against agree all allow also although
    always among an and another answer any anyone anything apply are as ask assume at avoid back
    backup be because before begin below best better between both bring build but buy by call can
    cancel cannot change check choose clean clear close code collect commit compare configure
    confirm connect consider contact convert copy could count create currently customer customers
    data database day debug decide default delete deploy describe did disable discuss do document
    does done don doctor download dr drop during each either email emails enable ensure error
    errors even every everyone everything examples execute expect explain export extract fetch few
    file files fill find first fix follow for format forward from full further generate get give
    given go good handle has have he hello help hence her here hi his hold how however i if ignore
    implement import important in include inform initial insert inspect instead install into invite
    invoice is issue it its join just keep last later launch learn leave less let like limit link
    list load local log logs look lunch mail maintain make many mark maybe measure meet meeting
    meetings merge messages migrate migrating minimum miss modify monitor more most move mr mrs ms
    much must my name need never new next no nobody none nor not note notes nothing notify now of
    off often ok old on once one only open or order other our out over own page password pay pick
    pin place plan please point possible post prefer prepare prevent previous print process prof
    professor project provide publish pull push put question raise re read rebuild recall receive
    record reduce refactor reject release remember remind remove rename repeat replace reply report
    request require reset resolve restart restore result results return reuse review revert rewrite
    roll rule run same save say schedule search see select send server set several share she ship
    should show sign simple since skip so some someone sometimes soon sort speak split standard
    start stay step stick still stop store submit such summary support switch sync take talk tell
    test tests than thank thanks that the their them then there these they this those though through
    throughout thus tidy to today together tomorrow tonight too track train translate treat try turn
    two type under unless until up update upgrade upload us use user users using usually validate
    verify very via visit wait want warning was watch we welcome were what when whenever where
    whether which while who whoever whole why will wish with within without work would write written
    yes yesterday yet you your
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays
    fridays saturdays sundays january february march april may june july august september october
    november december christmas easter english german french spanish italian portuguese dutch danish
    swedish norwegian finnish polish russian turkish arabic hebrew chinese japanese korean hindi
    british american european african asian indian greek latin internet web
    aber alle alles als also am an anfang antworten auch auf aus bei beim bitte da damit danach dann
    das dass dem den der des deutsch die dies diese dieser dieses doch dort du durch ein eine einem
    einen einer eines er erst es falls für frau fehler herr hier ich ihr im immer in ist ja jede
    jeder jedes kein keine keinen man manche mit nach nein neue nicht nie niemals nur ob oder ohne
    ostern sehr sein seit sie sind so über um und unser unsere unter vom von vor während wann warum
    was weil wenn wer werden wie wir wird wo zu zuerst zum zur zusammen zwischen montag dienstag
    mittwoch donnerstag freitag samstag sonntag januar februar märz mai juni juli oktober dezember
    à appeler après au aucun aussi aux avant avec ce ces cette chaque chez comme consulter dans de
    demander depuis des donc du elle elles en entre envoyer est et être faire faut il ils
    jamais je la le les leur lors lorsque mais mettre mon monsieur madame ne nos notre nous on ou où
    par pas pendant plus pour pourquoi prendre prévenir préférer quand que quel quelle qui répondre
    sa sans se sera si son sont sous sur ta toujours tous tout toute toutes un une utiliser vérifier
    voir vos votre vous français
    al algunas algunos antes así aunque cada como con consulta cuando cual cualquier cuidado de
    del desde después donde el ella ellos en entre es esta este esto estos evita está han hasta hay
    haz la las lo los más mi mis mientras mucho muy ni ningún no nos nosotros nuestra nuestro nunca
    para pero por porque pregunta puede que quien responde se según señor señora si siempre sin
    sobre solo son su sus también te tener tiene todas todo todos tu tus un una unas unos usa usamos
    usar ya yo español unión
    ama ancak bir biz bu bunlar bunu çok daha de değil eğer en gibi hangi hem hep her hiç için ile
    ise kim lütfen ne neden o onlar önce sadece sen şimdi siz son sonra şu tüm türkçe ve veya ya
    yalnızca yeni zaman""",
)
# abbreviations of things that exist in numbers
_NO_ACRONYMS = _set(
    """acl aes ai api apis arm aws ascii bom bsd cas cd cdn cert cet cgi ci cd cidr cli cls cms cors
    cpu cpus crc crm cron crud csp csrf css csv ddl ddos dhcp dll dm dml dns dom dry dto eof eol erp
    etl eu eur faq fifo fk fps ftp fyi gb gbp gdpr gid gif gmt gnu gpg gpl gpt gpu gpus gui guid gz
    hdd hmac html http https iam ical icmp id ide ids imap io ios ip ips ipv iso isp it jar jdk jit
    jpeg jpg json jsonl jvm jwt kb kpi lan ldap lfs lifo llm llms lru lts mac mb mcp md mfa mime mit
    ml mp mqtt ms mtls mvp nat nda nfs nfc nlp nn npc nvm ocr odbc oidc oom orm os otp pat pc pdf
    pem pgp php pid pii pin pk pm png poc poi pop pos pr prd prs ps qa qps qr ram rbac rc rdf regex
    repl rest rfc rgb rgba ro roi rpc rps rsa rss rtt saas saml sdk sdks seo sftp sha sla slo slos
    smtp soap sop spa spf sql sre ssd ssh sse ssl sso stdin stdout svg swap tb tbd tcp tdd ticket
    tldr tls todo totp ts tsv tty ttl tz udp ui uid uk un uri url urls us usa usb usd utc utf uuid
    uuids ux vat vcs vip vlan vm vms vpc vpn wal wan wip wlan wsl www xhr xml xsd xss yaml yml zip
    zfs fixme hack xxx note todo never always must only important warning caution danger stop
    """
)
_NO_TICKETS = _set(
    """AES CVE ES GPT HTTP IPV ISO LTE MD MP PEP PHP PR RFC RSA RTX SHA TLS UTC UTF USB V WW X COVID
    HD DDR JSR PY CP EU"""
)
# a sentence's first word before one of these is a name: "Priya owns ...", "Kestrel talks to ..."
_OF_NAMES = _set(
    """agreed agrees answers approved approves asked asks books confirmed confirms decided decides
    explained hates joined knows leads likes lives loves maintains manages mentioned owns plays
    prefers promised proposed quit recommends refuses replied reported requested reviewed reviews
    connects crashes decodes listens reads schedules scrapes serves stores talks writes
    said says signs suggested suggests teaches thinks told wanted wants wrote
    coordina gestiona prefiere quiere dijo pidió revisa escribió arregló lleva
    gère prépare veut préfère refuse demande écrit relit
    """
)
# one of these shows German; of the others, which are words of other languages too, two do
_GERMAN = _set(
    """aber auf bei beim bitte das dem der durch ein eine einem einen einer für gehört haben im
    immer ist jede jeder kein keine keinen läuft machen mehr mit möchte muss nach nicht noch nur
    oder ohne seine sich sind über und vom vor werden wird wir zu zuerst zum zur"""
)
_MAYBE_GERMAN = _set("am den die Die hat macht von")
_GERMAN |= {word.title() for word in _GERMAN}
_TURKISH = re.compile("[ğışİ]")
_GERMAN_BEFORE = _set(
    """herr herrn frau dr prof firma kunde kundin projekt modul server dienst rechner heißt heißen
    namens nennt kollege kollegin"""
)
_GERMAN_PREPOSITIONS = _set("an bei durch für in mit nach von ohne über")
_GERMAN_NOUN = re.compile(
    r".*(?:ung|heit|keit|schaft|tion|ität|ismus|ment|nis|tum|ling|chen|lein|en|ern|ers|er|e|s)"
)
_GERMAN_VERB = re.compile(r" (?:[a-zäöüß]{2,12}t|will|soll|kann|darf|muss|möchte|war|schrieb) ")
_GERMAN_NOUNS = _set(
    """absprache arbeit bedarf bord code einsatz fuß geld grund hand kraft papier platz sicht stand
    test text urlaub wasser wunsch zeit ziel zukunft"""
)
_PARTS = _set(
    """api app auth backend bastion bot cache client cluster cms cron database db dev east edge eu
    frontend gateway gpu gw host hub idp kasse laptop lb mail monitor mq nas node north prod proxy
    queue redis registry relay router runner sandbox scheduler server service south sql srv stage
    staging svc ui us vault vm vpn web west worker"""
)
_NO_PARTS = _set(
    """a ahead and at aware based bit by client-side code day deep driven end ended facing first
    for free friendly full high hour hours in independent is less level like line long low made
    minute minutes month months most native new non of off on only open or out over own per
    phase point pre ready real related safe self side sided single specific step style term the
    threaded time to top two up version week weeks well wide year years zero"""
)
_NO_HOSTS = _set("base covid es gpt h iso ipv md mp page part py python rfc sha top utf v")
_NO_PEOPLE = _set("皆 客 奥 母 父 兄 姉 神 嫁 娘 息子 お客 業者 王 多 同 各")


class Name(msgspec.Struct, frozen=True):
    """A name in a text; `is_sure` if more than a capital at a sentence's start shows it."""

    start: int
    kind: NameKind
    written: str
    is_sure: bool


@lru_cache(maxsize=8)  # a build reads a text for sure names, then for guesses
def names(text: str) -> tuple[Name, ...]:
    """Return the names in the prose of a text in order of appearance, with repeats."""
    if any(sign in text for sign in _SIGNS):
        text = _NO_PROSE.sub(blank, text)
    all_names = [*_words(text), *_capitals(text)]
    if "さん" in text or "様" in text or "氏" in text:
        for match in _HONORED.finditer(text):
            written = match[1] or match[2]
            if written not in _NO_PEOPLE:
                all_names.append(Name(match.start(), "name", written, True))
    return tuple(sorted(all_names, key=lambda name: name.start))


def blank(match: re.Match[str]) -> str:
    """Return as many spaces as a match is long, so that the rest keeps its place."""
    return " " * len(match[0])


def _words(text: str) -> Iterator[Name]:
    """Yield the hosts, tickets and repositories, each one word."""
    place = 0
    for token in text.split():
        if "-" not in token and "." not in token[:-1]:
            continue
        place = text.find(token, place)
        word = token.lstrip(_OPENING).rstrip(_CLOSING).removesuffix("'s").removesuffix("’s")
        word = _PORT.sub("", word)
        if _HOST.fullmatch(word) and _is_host(word):
            yield Name(place + token.index(word), "host", word, True)
        elif (match := _TICKET.fullmatch(word)) and match[1] not in _NO_TICKETS:
            yield Name(place + token.index(word), "ticket", word, True)
        place += len(token)
    if "/" in text and _OF_REPOSITORIES.search(text):
        for match in _REPOSITORY.finditer(text):
            yield Name(match.start(), "name", match[0].rstrip("."), True)


def _is_host(written: str) -> bool:
    if "." in written:
        octets = written.split(".")
        is_address = octets[-1].isdecimal() and octets[0] not in ("0", "127")
        return (
            all(int(octet) < 256 for octet in octets) if is_address else not octets[-1].isdecimal()
        )
    parts = written.split("-")
    if parts[0] in _NO_HOSTS or not _NO_PARTS.isdisjoint(parts):
        return False
    return parts[-1].isdecimal() or not _PARTS.isdisjoint(parts)


def _capitals(text: str) -> Iterator[Name]:
    runs = list(_RUN.finditer(text))
    if not runs:
        return
    words = set(text.split())
    is_german = not words.isdisjoint(_GERMAN) or len(words & _MAYBE_GERMAN) > 1
    is_ascii = text.isascii()
    is_turkish = not is_ascii and not is_german and _TURKISH.search(text) is not None
    has_sentences = is_ascii or _CJK.search(text) is None
    for match in runs:
        starts = has_sentences and _starts_sentence(text, match.start())
        place, parts = match.start(), match[0].split(" ")
        if is_german:
            yield from _german(text, place, parts, starts)
            continue
        if len(parts) > MOST_WORDS + 1:
            continue
        while parts and _is_no_name(parts[0]):  # "Ask Wanjiru", "The Synology"
            place += len(parts.pop(0)) + 1
            starts = False
        while parts and _is_no_name(parts[-1]):
            parts.pop()
        if starts and is_turkish and len(parts) > 1:  # "Faturaları Elif": an object, then a subject
            place += len(parts.pop(0)) + 1
            starts = False
        if not parts or len(parts) > MOST_WORDS or len(written := " ".join(parts)) > LONGEST_NAME:
            continue
        after = _AFTER.match(text, place + len(written))
        is_sure = len(parts) > 1 or not starts or _is_subject(text, after)
        is_sure = is_sure or _INNER_CAPITAL.search(written) is not None
        if len(written) > 1 and (len(parts) == 1 or not all(map(str.isupper, parts))):
            yield Name(place, "name", written, is_sure)


def _german(text: str, place: int, parts: list[str], starts: bool) -> Iterator[Name]:
    """Yield the names of a run of capitals in German, where every noun is written so."""
    for part in parts:
        before = text[max(0, place - 16) : place].split(" ")
        previous = before[-2].strip(".,:;(\"'").casefold() if len(before) > 1 else ""
        bare = not _GERMAN_NOUN.fullmatch(part) and part.casefold() not in _GERMAN_NOUNS
        is_sure = (
            previous in _GERMAN_BEFORE
            or (part.isupper() and len(part) > 2)
            or (previous in _GERMAN_PREPOSITIONS and bare)
            or (starts and bool(_GERMAN_VERB.match(text, place + len(part))) and bare)
        )
        if len(part) > 1 and not _is_no_name(part):
            yield Name(place, "name", part, is_sure)
        starts = False
        place += len(part) + 1


def _is_no_name(word: str) -> bool:
    folded = word.casefold()
    if word.isupper():
        return folded in _NO_ACRONYMS or folded in _NO_NAMES or word.isdecimal()
    return folded in _NO_NAMES or (word[-1] == "s" and word[:-1].isupper())  # URLs


def _is_subject(text: str, after: re.Match[str] | None) -> bool:
    """Return True if the word after a sentence's first one makes that a name: a verb, or another
    name.
    """
    if after is None:
        return False
    follows = after[0].strip()
    if follows == "and":
        return text[after.end() : after.end() + 1].isupper()
    return follows in _OF_NAMES


def _starts_sentence(text: str, place: int) -> bool:
    before = text[max(0, place - 12) : place].rstrip(" \t\"'“„«(*_>#-•")
    return not before or before[-1] in ".!?:\n…" or (place > 0 and text[place - 1] == "\n")
