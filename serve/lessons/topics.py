"""
Topics of rules, prompts, commands and files, to match those that share no word.

"Amounts are integers in cents" is about money, and so is "add a discount": a rule shares few words
with the deed it is about. So words of several languages, names of tools and parts of paths are
mapped to some thirty topics of teams' rules. A word of a list matches whole, or as a prefix where
it ends in `*`. Accents and case are ignored. A word in no list has no topic: only the same word
matches it.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_LISTS = {
        "money": """amount* price* pricing currenc* cent cents fee fees commission* discount*
        tax* vat invoice* total* tip tips refund* payout* payment* pay salary billing bill cost*
        money voucher* coupon* subscription* betrag* betrage* preis* geld rabatt* provision*
        gebuhr* rechnung* steuer* gutschein* centimes montant* prix argent remise* facture*
        taxe* frais paiement* rembours* precio* importe* monto* comision* descuento* propina*
        pago* reembols* iva factura* centavo* centimo* valor valores taxa preco* desconto*
        fatura* pagamento* importi sconto centesim* prezz* fattur* bedrag* prijs* korting
        factuur kosten euro euros dollar* eur usd ledger*""",
        "text": """text* copy message* label* wording dialog* banner* caption* tooltip* string
        strings translat* locale locales i18n l10n language* sentence* notice* warning*
        headline* title sign onboarding greeting* textes texte* libelle* traduc* traduz* idioma*
        mensaje* mensagem cartel* rotulo* etiqueta* dialogo* aviso* hinweis* meldung*
        beschriftung* ubersetz* oberflache* duzen siezen vouvoie* tutoie* tuteando vos affiche*
        messaggi* testo testi melding* tekst* button* boton* bouton* confirm* values strings.xml
        error-state empty po wort*""",
        "comment": """comment* docstring* doc docs document* readme kommentar* kommentier*
        commentaire* comentario* comentar* documenta* commenti javadoc rustdoc godoc explain*
        erklar* british american dash dashes spelling""",
        "test": """test* spec specs suite* coverage pytest jest vitest junit cypress playwright
        e2e fixture* mock* snapshot* prueba* teste testes essai* unittest* paparazzi tape
        tapes""",
        "release": """deploy* release* ship shipped rollout roll prod production staging live
        publish* launch* upload* beta version* bump* freeze hotfix apply fastlane helm kubectl
        fly ausroll* einspiel* veroffentlich* produktiv* produktion livre* livrer* mettre
        publie* publica* publicar subir suba sube subi subo lanzar lanza produccion producao
        producto sobe desplieg* desplegar productie uitrol* pubblica* store rollback friday*
        freitag* vendredi viernes vrijdag""",
        "commit": """commit* merge* merging squash rebase* branch* pr mr pull review* approve*
        changelog mergea* mergees fusion* ramm* rama zweig* prüf* ticket*""",
        "package": """dependenc* package* librar* crate* gem gems module* npm yarn pnpm pip uv
        poetry bun cargo install* add-on plugin* sdk bibliothek* paket* pakete abhangig*
        bibliotheque* lib dependance* paquete* librer* depend* biblioteca* libreria lockfile*
        lock vendor vendored""",
        "data": """database* db schema* table* column* migration* migrate* alembic flyway prisma
        query queries sql postgres* mysql sqlite psql index row rows datenbank* tabelle* spalte*
        tabla* columna* tabela* coluna* colonne* base bdd orm rails activerecord downgrade
        upgrade dump* pg_dump generator""",
        "time": """date dates time times timezone* zone utc clock* timestamp* calendar* hour*
        day days week* month* january february march april june july august september october
        november december datum* uhrzeit* zeit fecha* hora horas heure* data datas morning night
        tonight weekend season friday* monday* holiday* datetime java.time sleep today
        tomorrow""",
        "error": """error* exception* unwrap expect panic* throw* raise* try catch fail* result
        results abort* fehler* ausnahme* erreur* excepcion* null none optional crash* parse*
        parser* read reader* decode* load loader*""",
        "log": """log logs logging logger print* trace* console stdout journal* protokoll*
        journaux registra* registro* logge* audit record""",
        "secret": """secret* key keys password* token* credential* vault env auth* login*
        passkey* pass kennwort* passwort* anmeld* schlussel* clave* contrasena* senha cle cles
        motdepasse oauth jwt session* certificate* cert certs""",
        "person": """name names mail e-mail* email* address* customer* client* personal person*
        user users privacy gdpr dsgvo dpa legal cnil phone* nutzer* kunde* kunden* personennamen
        namen cliente* usuario* nome nom noms dato datos rider* patient* member*""",
        "network": """network* firewall* subnet* vpc port ports route routes routing dns proxy
        ingress gateway* vpn peering netzwerk* red reseau rede ip load-balancer* tls cidr""",
        "cloud": """bucket* cluster* region* storage server* instance* host* node nodes queue*
        resource* terraform aws gcp azure s3 account* eu frankfurt ireland central datacenter
        namespace* topic role roles lambda* vm tag tags tagged create* provision* account
        disk*""",
        "style": """colour* color* css scss hex theme* token tokens font* spacing layout design*
        dark red blue green stylesheet* farbe* farben couleur* cor cores style* tailwind padding
        margin contrast icon*""",
        "interface": """button* dialog* form forms screen* page pages view views component*
        widget* modal card cards icon* menu* panel* tooltip* input* field* pantalla* boton*
        ecran* bouton* seite knopf maske formular* tela control* label* accessib* a11y checkbox*
        tab tabs""",
        "api": """api apis endpoint* rest graphql header* request* response* versioned partner*
        webhook* rate limit* path paths openapi swagger schnittstelle* handler*""",
        "delete": """delete* remove* drop purge* archive* archived_at cleanup clean losch*
        entfern* supprim* borra* elimina* apaga* exclu* retention tombstone*""",
        "image": """image* photo* picture* png jpeg jpg avif webp svg logo* icon* bild* foto*
        imagen* imagem* screenshot* captura*""",
        "mail": """mail* e-mail* email* newsletter* smtp sendgrid correo* courriel* template*
        subject""",
        "job": """cron* job jobs schedul* nightly night worker* batch* queue* broker rabbit*
        kafka task tasks planifi* nachtlauf* backup* restart* alert* alarm* pager* pages page
        call oncall on-call""",
        "speed": """bench* performance perf fast* slow* latenc* p99 p95 profile* profiling
        messung* leistung* rapid* lent* memory cache* caching speicher* quick*""",
        "number": """integer* int float* floats double decimal* round* long bigint unit units
        metric metres feet altitude* speed distance* coordinate* lon lat lonlat bbox einheit*
        unidad* unite* ganzzahl* entero* kommazahl* number* bounding geo""",
        "inject": """inject* di koin hilt dagger kapt container singleton provider* inyecc*
        dependencias spring autowired wire guice""",
        "state": """state store stores zustand redux context observable* signal signals mobx
        pinia flow viewmodel* zustande estado""",
        "chart": """chart* plot* graph graphs echarts d3 grafik* diagramm* grafico* graphique*
        heatmap* dashboard*""",
        "type": """type types typed typing generic* interface* class* inherit* composition
        hierarch* syntax enum* struct* any mypy typescript python kotlin java sdk minsdk
        language-level""",
        "generated": """generat* codegen sdk proto* protobuf openapi build built copied vendor
        upstream erzeugt* genere* generad* gerado""",
        "flag": """flag flags toggle* feature experiment* rollout default""",
        "search": """search* meili* elastic* tsvector typo fuzzy suche* recherche* busca*
        busqueda* find""",
        "task": """make just justfile makefile task npm-script gradle gradlew bazel run runner
        entry script scripts lint* format* ruff eslint prettier""",
}  # fmt: skip

_TOKEN = re.compile(r"[^\W\d_]+(?:[.'’-][^\W\d_]+)*|[A-Za-z]\d+[A-Za-z]\d*|[a-z]+_[a-z_]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SHORTEST = 2


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in plain if not unicodedata.combining(letter)).casefold()


def _tables() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    whole: dict[str, set[str]] = {}
    beginnings: dict[str, set[str]] = {}
    for topic, words in _LISTS.items():
        for word in map(_fold, words.split()):
            table = beginnings if word.endswith("*") else whole
            table.setdefault(word.removesuffix("*"), set()).add(topic)
    return whole, beginnings


_WHOLE, _BEGINNINGS = _tables()


def words(text: str) -> Iterator[str]:
    """Yield the words of a text, a path or a command, in folded case, parts of names apart."""
    for match in _TOKEN.findall(text):
        for word in {match, *re.split(r"[._'’-]", match)}:
            for part in {word, *_HUMP.split(word)}:
                if len(part) >= _SHORTEST:
                    yield _fold(part)


@lru_cache(maxsize=8_192)
def word_topics(word: str) -> frozenset[str]:
    """Return the topics of one folded word."""
    names = set(_WHOLE.get(word, ()))
    for end in range(3, len(word) + 1):
        names |= _BEGINNINGS.get(word[:end], set())
    return frozenset(names)


def topics(text: str) -> frozenset[str]:
    """Return the topics of a text, a path or a command; empty where no word has a topic."""
    return frozenset(topic for word in words(text) for topic in word_topics(word))
