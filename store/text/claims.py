"""
Claims: the assertions in a text, taken apart into what they are about and the values they give.

"Update: the staging database moved to db-7 on Friday" is about the staging database, gives a host
and a day, and announces a change. What two claims are about and where their values differ is what
`store.text.claim_pairs` compares. A claim is a sentence; questions make none. Cue words are known
in the languages of the prompt classifier, the rest needs no language.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from store.text import tokenizer

MOST = 12  # claims of a text
LONGEST = 400  # characters of one
LONGEST_KEY = 61  # characters before a colon
LOOKED_AT = 4_000  # characters of a text
_FEWEST_LETTERS = 3

_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_END = re.compile(
    r"(?<=[.!?;\u3002\uff01\uff1f])[\"')\]]*\s+(?=\S)|(?<=[\u3002\uff01\uff1f])|\s+[\u2013\u2014]\s+"
    r"|\s*\n+\s*"
)
# questions typed without their mark, and lines of logs
_ASKS = re.compile(
    r"\W*(?:what|why|how|where|who|which|can|could|would|is there|are there|do we|does|did|was"
    r"|wie|warum|wieso|wo|wer|welche\w?|kannst|gibt es|qué|cómo|por qué|dónde|quién|puedes"
    r"|comment|pourquoi|où|quel\w*|peux-tu|est-ce|come|perché|dove|quale|como|onde|hoe|waarom"
    r"|waar|wat|как|почему|где|что|什么|怎么|なぜ|どう)\b(?!['\u2019:])",
    re.IGNORECASE,
)
_LOGGED = re.compile(
    r"^\s*at \S+\(|^\w*(?:Error|Exception|Warning|Traceback|ANR)\b|\b\w+(?:Error|Exception)\b[: ]"
    r"|panicked at|^\s*(?:\[?\d{4}-\d\d-\d\d[T ]|\d\d:\d\d:\d\d)|^\s*[+-]{3} |^\s*[|$>] "
    r"|\b0x[0-9a-f]{4,}"
)
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|z\.b|etc|vs|dr|mr|mrs|ms|no|nr|st|ca|approx)\.$", re.I)
_TOKEN = re.compile(
    r"[\"'\u201c\u201d\u2018\u2019\u00ab\u00bb`]|[$\u20ac\u00a3\u00a5]?\d[\d.,:/]*\d%?[A-Za-zµ]*"
    r"|[$\u20ac\u00a3\u00a5]?\d%?[A-Za-zµ]*|[#@~/.-]{0,2}[^\W\d_][\w]*"
    r"(?:[-._/:@+#'\u2019\\]+\w+)*(?:\+\+|#)?|[:,]"
)
_KEY = re.compile(rf"\s*([^\s:.!?][^:.!?\n]{{1,{LONGEST_KEY - 1}}}):\s+(?=\S)")
# "based on the survey: ..." names no slot
_SOURCE = re.compile(
    r"(?:based on|according to|per|laut|gemäß|según|selon|d'après|segundo|secondo|volgens)\b", re.I
)
_NUMBERED = re.compile(r"\s+(?:(?:v|version|rev|no\.?|#)\s*)?\d{1,2}$", re.I)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Cues, by what they announce. A phrase matches at word boundaries in folded text.

_CUES: dict[str, str] = {
    "label": """
        update | updates | updated | correction | corrected | corrigendum | erratum |
        edit | alert | heads up | fyi | notice | korrektur | aktualisierung | nachtrag |
        mise à jour | corrección | actualización | correção | atualização | correzione |
        aggiornamento | correctie | поправка | обновление | 更正 | 訂正 | 更新 | 정정
    """,
    "recant": """
        actually | wait | no wait | oops | sorry | my mistake | scratch that | i meant |
        i misspoke | on second thought | change of plan | change of plans | changed my
        mind | turns out | in fact | correct myself | correcting myself | was wrong |
        not quite | doch | moment mal | eigentlich | mein fehler | planänderung | stimmt
        nicht | en fait | finalement | attends | changement de plan | en realidad |
        mejor dicho | perdón | al final | cambio de plane | cambio de planes | na
        verdade | aliás | desculpa | mudança de plano | mudança de planos | in realtà |
        anzi | aspetta | cambio di programma | eigenlijk | wacht | toch | на самом деле
        | точнее | нет | 其实 | 不对 | 等等 | やっぱり | 実は | 違った | 아니 | 사실
    """,
    "instead": """
        instead | rather than | in place of | replace | replaces | replaced | replacing
        | swap | swap out | swapped | swapped out | swapping | swapping
        out | take over | takes over | took over | stand in for | stands in for |
        stattdessen | statt | anstelle | ersetzt | übernimmt | au lieu | plutôt |
        remplac* | en vez | en lugar | reemplaz* | sustituy* | em vez | no lugar |
        substitu* | invece | al posto | sostitui* | in plaats | vervang* | вместо |
        замен* | 代替 | 改为 | 改成 | 换成 | 代わりに | 대신
    """,
    "moved": """
        move | moved | moves | change | changed | changes | changing | switch | switched
        | switches | switching | push back | push out | push to | pushed back | pushed
        out | pushed to | postponed | rescheduled | brought forward | delayed to |
        delayed until | delayed till | slip | slips | slipped | bump | bumped | raise |
        raised | lower | lowered | increase | increased | decrease | decreased | reduce
        | reduced | cut to | went up to | went down to | upgrade | upgraded | downgrade
        | downgraded | renamed | revised | adjusted | amended | reassigned | handed over
        | transferred | relocated | wechsel* | gewechselt | verschoben | umgezogen |
        geändert | ändern | umgestellt | erhöht | gesenkt | umbenannt | changé | changés
        | changée | changées | changer | passé | passés | passée | passées | passer à |
        passons à | déplacé | déplacée | reporté | reportée | migr* | cambi* | pasamos a
        | pasa a | pasar a | pasó a | movi* | mudamos | mudou | mudar | passamos |
        passou | subimos | bajamos | sube* a | subi* a | aplazad* | spostat* | passiamo
        | passat* a | gewijzigd | verplaatst | verzet | overgestapt | перенес* | перешл*
        | измен* | 変更 | 移行 | 延期 | 改到 | 挪到 | 迁移 | 변경 | 옮겼
    """,
    "now": """
        now | from now on | as of today | as of now | as of monday | as of tuesday | as
        of wednesday | as of thursday | as of friday | as of * * | as of * | going
        forward | starting today | starting monday | starting now | starting next * |
        new | currently | latest | by now | ab jetzt | ab sofort | ab heute | ab morgen
        | ab *tag | jetzt | nun | neu* | künftig | désormais | dorénavant | maintenant |
        nouveau | nouvelle | ahora | a partir de | de ahora en adelante | nuev* | agora
        | novo | nova | ora | d'ora in poi | nuov* | voortaan | vanaf | nu | nieuw |
        nieuwe | теперь | отныне | 现在 | 从现在 | 今後 | 今は | 이제 | 앞으로
    """,
    "no_longer": """
        no longer | anymore | any more | not anymore | used to | formerly | previously |
        no more | nicht mehr | kein* * mehr | früher | ne * plus | n'* plus | plus de |
        ya no | antes | já não | não * mais | non * più | niet meer | geen * meer |
        больше не | 不再 | もう | 더 이상
    """,
    "ends": """
        cancel* | revok* | rescind* | withdraw* | withdrew | drop | droped | droping |
        drops | dropp | dropped | dropping | dropps | remove | removed | removing |
        delete | deleted | deleting | deprecat* | decommission* | discontinu* | abandon*
        | scraped | scrapped | shutdown | shut down | sunset* | expired | void | voided
        | invalid* | repeal* | lifted | abolish* | calle off | called off | ditch* | got
        rid of | get rid of | is out | are out | is gone | are gone | is dead | is off |
        no longer * | left | left the * | has left | quit | stepped down | resigned |
        moved on | axed | killed | reverse | reversed | reverses | overturn* | overrul*
        | overrid* | supersed* | stop using | stop doing | stop running | stopped |
        forget the | forget that | forget it | forget about the | forget about that |
        forget about it | abgesagt | gestrichen | gekündigt | storniert | entfernt |
        eingestellt | zurückgezogen | aufgehoben | abgeschafft | raus | hat *verlassen |
        fliegt raus | annul* | supprim* | retir* | abandonn* | abrog* | quitt* |
        cancelad* | elimin* | quitamos | quité | quitado | saqué | sacamos | sacá | se
        fue | dejó de | dejó el | retirad* | anulad* | descartad* | removid* | revogad*
        | saiu | annullat* | rimoss* | eliminat* | revocat* | lasciato | geannuleerd |
        geschrapt | verwijderd | ingetrokken | отмен* | убрал* | удал* | ушел | ушёл |
        ушла | 取消 | 撤销 | 删除 | 废除 | 中止 | 削除 | やめ* | 退職 | 취소 | 삭제 | 폐지
    """,
    "falsified": """
        was incorrect | was wrong | was outdated | was invalid | was false | was based
        on incorrect | was based on wrong | was based on outdated | was based on invalid
        | was based on false | were incorrect | were wrong | were outdated | were
        invalid | were false | were based on incorrect | were based on wrong | were
        based on outdated | were based on invalid | were based on false | is incorrect |
        is wrong | is outdated | is invalid | is false | is based on incorrect | is
        based on wrong | is based on outdated | is based on invalid | is based on false
        | are incorrect | are wrong | are outdated | are invalid | are false | are based
        on incorrect | are based on wrong | are based on outdated | are based on invalid
        | are based on false | based on wrong | based on incorrect | based on outdated |
        based on bad | based on old | need to be re* | needs to be re* | no longer valid
        | no longer holds | no longer true | no longer applies | doesnot hold | doesnot
        apply | doesn't hold | doesn't apply | does not hold | does not apply | does n't
        hold | does n't apply | invalidated | out of date | not true anymore | not true
        any more | ungültig | überholt | hinfällig | beruhte auf falschen | n'est plus
        valable | obsolète | caduc | ya no vale | ya no es válid* | obsolet* | non è più
        valid* | niet meer geldig | achterhaald | устарел* | 失效 | 作废 | 無効
    """,
    "back": """
        back to | revert | revert to | reverted | reverted to | reverting | reverting to
        | return to | returned to | returning to | restor* | roll back | rolled back |
        zurück zu* | retour à | revenons | reviens | volvemos a | volver a | de
        vuelta | voltamos | voltar | torniamo | terug naar | верн* | 改回 | 戻*
    """,
    "also": """
        also | additionally | in addition | as well | besides | another | second | other
        | too | plus | furthermore | moreover | even | both | auch | ausserdem |
        zusätzlich | ein weitere* | eine weitere* | einen weitere* | aussi | également |
        de plus | en plus | un autre | también | además | otro | otra | também | além
        disso | outro | outra | anche | inoltre | un altro | ook | bovendien | nog een |
        также | еще | ещё | 也 | 另外 | また | 또한
    """,
    "detail": """
        specifically | namely | in particular | i.e. | more precisely | to be precise |
        that is | meaning | detail | details | and by | including | at least | exactly |
        remember | don't forget | as said | as mentioned | as agreed | as discussed | as
        i said | as i mentioned | as i agreed | as i discussed | just to confirm |
        confirming | to be clear | reminder | again | still | recap | genauer | nämlich
        | insbesondere | wie gesagt | wie besprochen | zur erinnerung | noch mal |
        précis* | notamment | pour rappel | en concreto | recuerda | como dije | como
        dijimos | lembrando | especificamente | cioè | ricorda | oftewel | zoals gezegd
        | а именно | напом* | 即 | 即ち | つまり
    """,
    "tentative": """
        maybe | perhaps | might | could | thinking | thinking of | thinking about |
        considering | what if | proposal | proposed | tentative* | possibly | let's try
        | try | draft | idea | wonder* | vielleicht | eventuell | könnten | überlege* |
        peut être | pourrait | on pense | quizá | quizás | tal vez | podríamos | talvez
        | poderíamos | forse | potremmo | misschien | zouden | может | 也许 | 可能 | たぶん |
        かも | 아마
    """,
    "firm": """
        official | officially | final | finally | finalized | finalised | decided |
        confirmed | approved | per the * | overrid* | policy | settled | agreed |
        entschieden | beschlossen | endgültig | décidé | définitif | officiel* | decidi*
        | definitiv* | decis* | besloten | решил* | 决定 | 決定 | 결정
    """,
    "concludes": """
        so | therefore | thus | hence | consequently | which means | this means |
        derived | that leaves | based on that | based on this | based on the | daher |
        also | somit | folglich | donc | par conséquent | así que | por tanto | por lo
        tanto | entonces | portanto | então | quindi | perciò | dus | поэтому | 所以 | 因此
        | だから | そのため | 그래서
    """,
    "if": """
        if | unless | when | whenever | in case | wenn | falls | si | quand | cuando |
        se | quando | als | если | 如果 | もし | 만약
    """,
    "than": """
        not | no | never | don't | doesn't | can't | cannot | won't | isn't | aren't |
        without | nicht | nie | niemals | kein* | ohne | ne | pas | jamais | sans |
        nunca | sin | não | sem | non | mai | senza | niet | nooit | geen | zonder | не
        | никогда | 不 | 别 | 没 | ない | 않
    """,
    "must": """
        must | always | never | only | have to | require | required | mandatory | need
        to | needs to | should | shall | no lo | muss | müssen | immer | nur | soll* |
        doit | doivent | toujours | seulement | debe* | siempre | solo | deve* | sempre
        | apenas | moet* | altijd | alleen | долж* | всегда | 必须 | 必ず | 항상
    """,
    "may": """
        may | can | allowed | fine to | free to | ok to | okay to | permitted | dürfen |
        darf* | kannst | peut | peux | pouvez | puede* | pode* | può | puoi | mag |
        mogen | можн* | 可以 | てもいい | 돼
    """,
    "past": """
        initially | originally | at first | back then | used to | formerly | previously | in
        the past | last year | earlier today | years ago | zunächst | ursprünglich | früher |
        damals | anfangs | vorher | au début | à l'origine | auparavant | inicialmente |
        originalmente | al principio | antes era | no início | originariamente |
        inizialmente | prima era | aanvankelijk | oorspronkelijk | vroeger | сначала |
        изначально | раньше | 最初 | 原本 | 当初 | 처음에
    """,
    "time_was": """
        was | value was | the was | the value was | were | had been | used to be | old |
        originally | initially | earlier | original | war | waren | alte | alter | alten
        | ursprünglich | était | ancien* | era | estaba | anterior | viej* | velh* |
        vecchi* | oude | был* | 原来 | 前の | 원래
    """,
}
CUES = tuple(_CUES)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
# phrases by their first word, or by its first letters where more may follow: the rest, and the bit
_Phrases = dict[str, list[tuple[tuple[str, ...], int]]]
_PHRASES: _Phrases = {}
_PREFIXES: _Phrases = {}
_UNSPACED: list[tuple[str, int]] = []  # of scripts that write no spaces
for _place, _listed in enumerate(_CUES.values()):
    for _phrase in _listed.split("|"):
        _first, *_rest = _phrase.split()
        if _CJK.search(_first):
            _UNSPACED.append((_first, 1 << _place))
        elif _first.endswith("*"):
            _PREFIXES.setdefault(_first[:-1], []).append((tuple(_rest), 1 << _place))
        else:
            _PHRASES.setdefault(_first, []).append((tuple(_rest), 1 << _place))
# words that announce, and say nothing of what a claim is about
_ANNOUNCE = ("label", "recant", "instead", "moved", "now", "back", "also", "detail", "past")
_ANNOUNCING = frozenset(
    word
    for cue in _ANNOUNCE
    for phrase in _CUES[cue].split("|")
    if len(word_list := phrase.split()) == 1 and (word := word_list[0])
)
_PREFIX_LENGTHS = sorted({len(_prefix) for _prefix in _PREFIXES})

_STATUS = {
    "on track": "status",
    "in progress": "status",
    "on hold": "status",
    "in planning": "status",
    "in review": "status",
    "back up": "status",
    "signed off": "status",
    "not started": "status",
}
_STATUSES = _words(
    """delayed cancelled canceled approved rejected denied pending passed failed failing resolved
    investigating operational down up broken fixed working blocked unblocked done completed complete
    finished started paused resumed active inactive enabled disabled open closed merged reverted
    shipped released deprecated live offline online available unavailable full empty ready signed
    confirmed unconfirmed tentative expired valid invalid green red granted revoked stable unstable
    healthy degraded outage launched suspended postponed scheduled unscheduled hired vacant sold
    paid unpaid overdue draft published private public mandatory optional allowed forbidden required
    frozen unfrozen locked unlocked planning deployed undeployed staffed archived won lost accepted
    fertig abgeschlossen blockiert erledigt offen geschlossen aktiv inaktiv genehmigt abgelehnt
    cancelado aprobado rechazado pendiente listo roto activo terminado aprovado pronto concluido
    annule approuve refuse termine bloque actif goedgekeurd afgewezen klaar"""
)
_MONTHS = _words(
    """january february march april june july august september october november december jan feb
    mar apr jun jul aug sep sept oct nov dec januar februar märz juni juli oktober dezember
    janvier février mars avril juin juillet août septembre octobre novembre décembre enero febrero
    marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre janeiro fevereiro
    março maio junho julho setembro outubro novembro dezembro gennaio febbraio aprile maggio giugno
    luglio settembre ottobre dicembre januari februari maart mei augustus"""
)
_DAYS = _words(
    """monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays
    thursdays fridays mon tue tues wed thu thurs fri montag dienstag mittwoch donnerstag freitag
    samstag sonntag montags dienstags mittwochs donnerstags freitags lundi mardi mercredi jeudi
    vendredi samedi dimanche lunes martes miércoles jueves viernes sábado domingo segunda terça
    quarta quinta sexta lunedì martedì mercoledì giovedì venerdì sabato domenica maandag dinsdag
    woensdag donderdag vrijdag zaterdag zondag today tomorrow tonight yesterday eod heute morgen
    demain hoy mañana hoje amanhã oggi domani vandaag q1 q2 q3 q4 spring summer autumn winter
    midnight noon weekly daily monthly quarterly yearly annually biweekly fortnightly nightly
    hourly wöchentlich täglich monatlich"""
)
_PERIODS = _words(
    """day days week weeks month months year years hour hours minute minutes second seconds
    tag tage tagen woche wochen monat monate jahr jahre stunde stunden minuten jour jours semaine
    semaines mois ans heure heures minutes día días semana semanas mes meses año años hora horas
    dia dias mês ano anos giorno giorni settimana settimane mese mesi ore week weken maand uur"""
)
# a number after one of these is a name: build 12 is another build than 13
_NUMBERED_NOUNS = _words(
    """build test tests run pr issue ticket invoice order case option step requirement instruction
    phase chapter section line page sprint commit patch migration flight customer candidate vendor
    provider cloud team part release milestone day task item question slide figure table node batch
    job experiment attempt lesson unit player rule option variant plan schritt anforderung aufgabe
    kapitel rechnung bestellung paso pedido factura etape facture"""
)
_WHICH = _words(
    """next this last nächste nächsten diese dieser prochaine cette próxima esta questa volgende
    deze end"""
)
_NUMBER_WORDS = {
    word: str(number)
    for number, words in enumerate(
        (
            "zero null",
            "one ein eins une uno um",
            "two zwei deux dos dois due twee",
            "three drei trois tres três tre drie",
            "four vier quatre cuatro quatro quattro",
            "five fünf cinq cinco cinque vijf",
            "six sechs seis sei zes",
            "seven sieben sept siete sete sette zeven",
            "eight acht huit ocho oito otto",
            "nine neun neuf nueve nove negen",
            "ten zehn dix diez dez dieci tien",
            "eleven elf onze once",
            "twelve zwölf douze doce doze dodici twaalf",
            "thirteen dreizehn treize trece",
            "fourteen vierzehn quatorze catorce",
            "fifteen fünfzehn quinze quince",
            "sixteen sechzehn seize dieciséis",
            "seventeen siebzehn",
            "eighteen achtzehn",
            "nineteen neunzehn",
            "twenty zwanzig vingt veinte vinte venti twintig",
        )
    )
    for word in words.split()
    if number != 1 or word == "eins"
} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "ninety": "90",
    "hundred": "100",
    "twice": "2",
    "once": "1",
}

_TIME = re.compile(r"\d{1,2}(?::\d{2})?(?:am|pm|h|uhr)|\d{1,2}:\d{2}(?::\d{2})?", re.I)
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}(?:st|nd|rd|th)"
)
_MONEY = re.compile(
    r"[$\u20ac\u00a3\u00a5]\d[\d.,]*[kKmMbB]?\w*|\d[\d.,]*(?:usd|eur|gbp|k?\u20ac)", re.I
)
_PERCENT = re.compile(r"\d[\d.,]*%")
_VERSION = re.compile(r"v?\d+\.\d+(?:\.\w+)*|v\d+", re.I)
_NUMBER = re.compile(r"\d[\d.,]*[a-zµ]{0,4}", re.I)
_ID = re.compile(r"#\d+|[A-Z]{2,}[-_]\d+|[A-Z]+\d{3,}")
_HOST = re.compile(
    r"(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:/\S*)?|localhost(?::\d+)?|[\w-]+@[\w.-]+", re.I
)
_PATH = re.compile(r"[~.]{0,2}/[\w./-]+|[\w.-]+/[\w./-]+|[\w-]+\.[a-z]{1,5}")
_IDENT = re.compile(
    r"\w*[a-z][A-Z]\w*|\w+_\w+|[a-z]+\d[\w-]*|--?[a-z][\w-]*|[\w]+(?:::|\.)\w+[\w.:]*", re.ASCII
)
_BRAND = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+")  # GlobeTrain, whatever class is named so
_HYPHENED = re.compile(r"[^\W\d_]+(?:-[^\W_]+)+")

# what a token is, by its place in the features of a pair
KINDS = (
    "word",
    "number",
    "money",
    "percent",
    "version",
    "date",
    "time",
    "id",
    "host",
    "path",
    "ident",
    "name",
    "status",
)
WORD, NUMBER, MONEY, PERCENT, VERSION, DATE, TIME, ID, HOST, PATH, IDENT, NAME, STATUS = range(13)
_VALUES = frozenset(range(1, 13))

# words that say nothing of what a claim is about, beside stop words and cues
_GENERIC = tokenizer.STOP_WORDS | _words(
    """may um uh use used uses using set get got go going make made let lets please need want
    keep run runs work works working okay ok hi hello hey thanks anyway note noted previous
    previously current currently today
    way thing things bit lot great good bad news sure fine just decision
    conclusion value actual requirement info information based das der die den dem des und ist sind
    wir ich es ein eine einen einem für mit auf von zu im in am an bei wird werden haben hat auch
    le la les un une des du de et est sont nous je il elle pour avec sur dans au aux que qui on
    el los las uno una y es son nosotros yo para con en al lo se que o os as um uma e do da dos das
    no na nos por com em il gli i uno e è sono per con di da che het een en is zijn wij we ik voor
    met op van in te dat и в на с по для мы я это к из"""
)
_LEADS = re.compile(
    r"\s*(?:(?:ok(?:ay)?|so|and|but|well|hm+|oh|ah|hi|hello|hey|yeah|yes|no|please|also|btw"
    r"|by the way|und|aber|y|pero|et|mais|oh by the way|anyway)[\s,:!.-]+)+",
    re.IGNORECASE,
)
_COPULAS = _words(
    """is are = equals be been was were uses use used using on at to in with by via from for goes
    run runs
    lives listens stays becomes became ist sind bleibt wird nutzt verwendet auf bei mit est sont
    reste sur avec utilise es son está están usa usamos é são fica sono usa zijn blijft gebruikt
    owns handles needs requires takes costs expires ends starts begins due remains a v2"""
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word or value of a claim: `text` is folded, `term` its stem, "" for a function word."""

    text: str
    term: str
    kind: int


@dataclass(frozen=True, slots=True)
class Claim:
    """An assertion. `key` are the terms before its colon; `cues` are bits by the order of `CUES`;
    `terms` is what it is about, values included; `quoted` what it cites.
    """

    text: str
    tokens: tuple[Token, ...]
    cues: int
    key: tuple[str, ...]
    terms: frozenset[str]
    values: tuple[tuple[int, str, str, str], ...]  # kind, value, the content words around it
    quoted: str

    def has(self, cue: str) -> bool:
        return bool(self.cues >> CUES.index(cue) & 1)

    @property
    def words(self) -> int:
        return len(self.tokens)


def claim_spans(text: str) -> list[tuple[int, int]]:
    """Return where the claims of a text begin and end, in order, at most MOST: the first ones."""
    text = text[:LOOKED_AT]
    spans: list[tuple[int, int]] = []
    at = 0
    for fence in (*((one.start(), one.end()) for one in _FENCE.finditer(text)), (len(text), -1)):
        spans += _sentence_spans(text, at, fence[0])
        at = fence[1]
    return spans[:MOST]


def _sentence_spans(text: str, at: int, end: int) -> Iterator[tuple[int, int]]:
    start = at
    for stop in _END.finditer(text, at, end):
        if _ABBREVIATION.search(text, max(start, stop.start() - 8), stop.start()):
            continue
        yield from _trimmed(text, start, stop.start())
        start = stop.end()
    yield from _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    said = text[start:end]
    inner = said.strip()
    if sum(map(str.isalnum, inner)) < _FEWEST_LETTERS or inner.endswith(("?", "\uff1f", ":")):
        return
    if _ASKS.match(inner) or _LOGGED.search(inner):
        return
    first = start + said.index(inner[0])
    yield first, min(first + len(inner), first + LONGEST)


def claims(text: str) -> list[Claim]:
    """Return the claims of a text, in order."""
    return [parse(text[start:end]) for start, end in claim_spans(text)]


@lru_cache(maxsize=4_096)
def parse(text: str) -> Claim:
    """Return a claim taken apart."""
    body, key = text, ""
    folded = text.casefold().replace("\u2019", "'")
    cues = _cues(folded)
    lead = _LEADS.match(body)
    if lead is not None and lead.end() < len(body):
        body = body[lead.end() :]
    match = _KEY.match(body)
    while match is not None and "://" not in match[0]:
        if _key_terms(match[1]) and not _SOURCE.match(match[1]):
            key = match[1]
            break
        body = body[match.end() :]  # "Update: ..." names no slot
        match = _KEY.match(body)
    quoted = " ".join(
        one[1]
        for one in re.finditer(
            r"[\"'\u201c\u201e\u2018\u00ab]([^\"'\u201d\u2019\u00bb]{6,})[\"'\u201d\u201c\u2019\u00bb]",
            text,
        )
    )
    tokens = tuple(_tokens(body))
    slot = _key_terms(key)
    terms = frozenset((*slot, *(token.term for token in tokens if token.term)))
    return Claim(text, tokens, cues, slot, terms, tuple(_values(tokens)), quoted)


def _cues(folded: str) -> int:
    found = 0
    words = _WORD.findall(folded)
    for place, word in enumerate(words):
        phrases = _PHRASES.get(word, ())
        for length in _PREFIX_LENGTHS:
            if length > len(word):
                break
            if more := _PREFIXES.get(word[:length]):
                phrases = (*phrases, *more)
        for rest, bit in phrases:
            if not rest or _follows(words, place + 1, rest):
                found |= bit
    if not folded.isascii():
        for phrase, bit in _UNSPACED:
            if phrase in folded:
                found |= bit
    return found


def _follows(words: Sequence[str], at: int, rest: Sequence[str]) -> bool:
    if at + len(rest) > len(words):
        return False
    return all(
        word.startswith(wanted[:-1]) if wanted.endswith("*") else word == wanted
        for word, wanted in zip(words[at:], rest, strict=False)
    )


_LABELS = _words(
    """updat correct corrigendum alert heads fyi notic edit corrected remind korrektur correction
    correccion actualizacion nachtrag important critic reminder note info announc warn"""
)


def _key_terms(key: str) -> tuple[str, ...]:
    plain = _NUMBERED.sub("", key.replace("_", " "))
    return tuple(
        term
        for term in tokenizer.terms(plain)
        if term not in _LABELS and term not in _GENERIC and not term.isdigit()
    )[:6]


def _tokens(body: str) -> Iterator[Token]:
    parts = list(_TOKEN.finditer(body))
    start_of_sentence, before = True, ""
    skip = -1
    for place, part in enumerate(parts):
        raw = part[0]
        if raw in "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb`:,":
            start_of_sentence = start_of_sentence or raw == ":"
            continue
        if place <= skip:
            continue
        folded = raw.casefold().strip(".,:;").replace("\u2019", "'")
        following = parts[place + 1][0].casefold() if place + 1 < len(parts) else ""
        if (phrase := f"{folded} {following}") in _STATUS:
            skip = place + 1
            yield Token(phrase, phrase, STATUS)
        elif folded in _WHICH and following in _PERIODS:
            skip = place + 1
            yield Token(phrase, phrase, DATE)
        else:
            kind = _kind(raw, folded, start_of_sentence=start_of_sentence)
            is_name = before in _NUMBERED_NOUNS and (kind == NUMBER or len(folded) == 1)
            if is_name and (kind != NUMBER or folded not in _NUMBER_WORDS):
                folded, kind = f"{before} {folded}", ID
            yield Token(_plain_value(folded, kind), _term(folded, kind), kind)
        start_of_sentence, before = False, folded


def _kind(raw: str, folded: str, *, start_of_sentence: bool) -> int:
    bare = raw.strip(".,:;")
    if bare[:1].isdigit() or bare[:1] in "$\u20ac\u00a3\u00a5":
        for pattern, kind in (
            (_PERCENT, PERCENT),
            (_MONEY, MONEY),
            (_DATE, DATE),
            (_TIME, TIME),
            (re.compile(r"\d+\.\d+\.\w[\w.]*"), VERSION),
            (_NUMBER, NUMBER),
        ):
            if pattern.fullmatch(bare):
                return kind
        return IDENT
    if folded in _NUMBER_WORDS:
        return NUMBER
    if (folded in _MONTHS or folded in _DAYS) and raw != "may":
        return DATE
    if folded in _STATUSES:
        return STATUS
    if not bare.isalpha():
        for pattern, kind in (
            (_ID, ID),
            (_VERSION, VERSION),
            (_HOST, HOST),
            (_PATH, PATH),
            (_IDENT, IDENT),
        ):
            if pattern.fullmatch(bare):
                return kind
        if _HYPHENED.fullmatch(bare):
            return NAME if bare[0].isupper() and not start_of_sentence else WORD
        return IDENT if any(map(str.isdigit, bare)) or "_" in bare or "/" in bare else WORD
    if _BRAND.fullmatch(bare):
        return NAME
    if _IDENT.fullmatch(bare):
        return IDENT
    if bare[0].isupper() and (not start_of_sentence or (len(bare) > 1 and bare.isupper())):
        return NAME
    return WORD


def _plain_value(folded: str, kind: int) -> str:
    if kind == NUMBER:
        return _NUMBER_WORDS.get(folded, folded.replace(",", ""))
    if kind == MONEY:
        return folded.replace(",", "")
    return folded


def _term(folded: str, kind: int) -> str:
    if kind in (NUMBER, MONEY):
        return _plain_value(folded, kind)
    if kind == ID:
        return folded
    if kind in _VALUES:
        found = tokenizer.terms(folded)
        return found[0] if found else folded
    if folded in _GENERIC or folded in _ANNOUNCING:
        return ""
    found = tokenizer.terms(folded)
    return found[0] if found and found[0] not in _GENERIC else ""


def _values(tokens: Sequence[Token]) -> Iterator[tuple[int, str, str, str]]:
    """Yield kind and text of each value, and the nearest content words before and after it."""
    for place, token in enumerate(tokens):
        if token.kind not in _VALUES:
            continue
        before = next(
            (
                one.term
                for one in reversed(tokens[max(0, place - 4) : place])
                if one.term and one.kind in (WORD, NAME, IDENT)
            ),
            "",
        )
        after = next(
            (
                one.term
                for one in tokens[place + 1 : place + 3]
                if one.term and one.kind in (WORD, NAME)
            ),
            "",
        )
        yield token.kind, token.text, before, after


def is_copula(token: Token) -> bool:
    """Return whether a token joins what a sentence is about and what it says of it."""
    return token.text in _COPULAS


_CHANGES = ("label", "recant", "instead", "moved", "no_longer", "ends", "falsified", "back", "firm")


def announces(claim: Claim) -> bool:
    """Return whether a claim has words that announce a change."""
    return any(claim.has(cue) for cue in _CHANGES)
