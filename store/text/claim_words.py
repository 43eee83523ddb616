"""
Words by which `store.text.claims` reads a sentence: announcements of a change, values by kind,
words that add nothing to a claim's subject; in the languages of the prompt classifier.
"""

from store.text import tokenizer


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Cues, by the change they announce. A phrase matches at word boundaries in folded text.

PHRASES: dict[str, str] = {
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
        passons à | déplacé | déplacée | reporté | reportée | migrar | migramos |
        migré | migrée | migrado | migrada | cambi* | pasamos a
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
        maybe | perhaps | might | could | probably | leaning | lean towards |
        working title | provisional* | not final | penciled in | floated | thinking |
        thinking of | thinking about | considering | what if | proposal | proposed |
        tentative* | possibly | let's try | try | draft | idea | wonder* | vielleicht |
        eventuell | könnten | überlege* |
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
        initially | originally | at first | back then |
        once used | once had | once ran | used to | formerly | previously | in
        the past | last year | earlier today | years ago | zunächst | ursprünglich | früher |
        damals | anfangs | vorher | au début | à l'origine | auparavant | inicialmente |
        originalmente | al principio | antes era | no início | originariamente |
        inizialmente | prima era | aanvankelijk | oorspronkelijk | vroeger | сначала |
        изначально | раньше | 最初 | 原本 | 当初 | 처음에
    """,
    "fault": """
        fail | fails | failed | failing | broken | breaks | broke | error | errors | crash* |
        hang | hangs | wrong | bug | missing | slow | warning | warnings | stuck | flaky |
        complain* | why | doesn't | didn't | isn't | schlägt | fehler | kaputt | hängt | warum |
        falla* | erreur* | échoue | pourquoi | por qué | falha
    """,
    "succeeds": """
        goodbye | rip | threw | thrown | retire | retired | settled on | over to | went over |
        take over | takes over | took over | taken over | takes its place | in favour of |
        in favor of | after all | since monday | since tuesday | since wednesday | since
        thursday | since friday | ever since | gave us | is history | are history | was wrong |
        became | becomes | turned out | from here on | the real thing | tourne désormais
    """,
    "whole": """
        only | everything | everywhere | since | all of | always | whole | alles | überall | seit |
        partout | depuis | tout | todo | todos | desde
    """,
    "time_was": """
        was | value was | the was | the value was | were | had been | used to be | old |
        originally | initially | earlier | original | war | waren | alte | alter | alten
        | ursprünglich | était | ancien* | era | estaba | anterior | viej* | velh* |
        vecchi* | oude | был* | 原来 | 前の | 원래
    """,
}

# Tools and other choices of which a project has one of each kind: another one replaces it.
CHOICES: dict[str, str] = {
    name: kind
    for kind, names in {
        "package": """npm pnpm yarn bun pip uv poetry pipenv conda mamba pixi pdm cargo composer
            bundler maven gradle nix apt homebrew brew vcpkg conan cocoapods spm lerna turborepo""",
        "test": """pytest unittest nose nox tox jest vitest mocha ava karma cypress playwright
            selenium puppeteer testcafe rspec minitest junit testng phpunit pest gtest catch2""",
        "lint": """black ruff flake8 pylint yapf autopep8 isort prettier eslint tslint biome dprint
            rubocop gofmt rustfmt clang-format stylelint""",
        "types": "mypy pyright pyre flow",
        "database": """postgres postgresql mysql mariadb sqlite oracle mssql mongodb mongo couchdb
            dynamodb cockroachdb cassandra duckdb clickhouse bigquery snowflake redshift firestore
            supabase influxdb timescaledb""",
        "queue": """rabbitmq kafka nats sqs celery sidekiq bullmq activemq pulsar zeromq mosquitto
            redpanda""",
        "cache": "redis memcached valkey dragonfly varnish",
        "hosting": """heroku fly.io fly render vercel netlify railway scaleway hetzner aws azure gcp
            digitalocean linode ovh""",
        "forge": "github gitlab gitea bitbucket codeberg forgejo",
        "ci": "jenkins travis circleci buildkite teamcity woodpecker",
        "bundler": "webpack vite rollup parcel esbuild turbopack browserify gulp grunt",
        "server": "nginx apache caddy traefik haproxy",
        "errors": "sentry glitchtip rollbar bugsnag datadog newrelic",
        "metrics": "grafana kibana splunk loki prometheus",
        "map": "leaflet maplibre mapbox openlayers",
        "dates": "moment dayjs luxon date-fns",
        "css": "tailwind bootstrap bulma sass scss",
        "icons": "fontawesome lucide heroicons feather",
        "orm": "sqlalchemy prisma typeorm drizzle sequelize hibernate ecto",
        "auth": "jwt oauth saml ldap keycloak auth0 okta",
        "infrastructure": "ansible terraform pulumi puppet chef helm nomad kubernetes k8s",
    }.items()
    for name in names.split()
}
# a sentence that begins with one of these asks for something to be done
REQUESTS = words(
    """add fix write make build move remove delete change rename update put show check run look
    find create implement refactor use set let give sort draw print test explain merge push commit
    deploy release bring install upgrade bump replace clean format split extract convert export
    import mock document draft generate list open close reproduce investigate bisect increase
    reduce raise lower drop revert restart try continue go please can could füge schreib bau mach
    prüf prüfe zeig zeige ändere ergänze ajoute écris corrige vérifie change déploie mets añade
    escribe arregla cambia crea pon sube adiciona escreve muda"""
)
TWO_WORD_STATUSES = frozenset(
    (
        "on track", "in progress", "on hold", "in planning", "in review", "back up", "signed off",
        "not started", "on schedule", "in preparation", "under construction", "under review",
        "up again", "in production",
    )
)  # fmt: skip
STATUSES = words(
    """delayed cancelled canceled approved rejected denied pending passed failed failing resolved
    investigating operational down up broken fixed working blocked unblocked done completed complete
    finished started paused resumed active inactive enabled disabled open closed merged reverted
    shipped released deprecated live offline online available unavailable full empty ready signed
    confirmed unconfirmed tentative expired valid invalid green red granted revoked stable unstable
    healthy degraded outage launched suspended postponed scheduled unscheduled hired vacant sold
    paid unpaid overdue stopped halted terminated withdrawn draft published private public
    mandatory optional allowed forbidden required frozen unfrozen locked unlocked planning
    deployed undeployed staffed archived won lost accepted
    fertig abgeschlossen blockiert erledigt offen geschlossen aktiv inaktiv genehmigt abgelehnt
    cancelado aprobado rechazado pendiente listo roto activo terminado aprovado pronto concluido
    annule approuve refuse termine bloque actif goedgekeurd afgewezen klaar"""
)
MONTHS = words(
    """january february march april june july august september october november december jan feb
    mar apr jun jul aug sep sept oct nov dec januar februar märz juni juli oktober dezember
    janvier février mars avril juin juillet août septembre octobre novembre décembre enero febrero
    marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre janeiro fevereiro
    março maio junho julho setembro outubro novembro dezembro gennaio febbraio aprile maggio giugno
    luglio settembre ottobre dicembre januari februari maart mei augustus"""
)
DAYS = words(
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
PERIODS = words(
    """day days week weeks month months year years hour hours minute minutes second seconds
    tag tage tagen woche wochen monat monate jahr jahre stunde stunden minuten jour jours semaine
    semaines mois ans heure heures minutes día días semana semanas mes meses año años hora horas
    dia dias mês ano anos giorno giorni settimana settimane mese mesi ore week weken maand uur"""
)
# a number after one of these is a name: build 12 is another build than 13
NUMBERED_NOUNS = words(
    """build test tests run pr issue ticket invoice order case option step requirement instruction
    phase chapter section line page sprint commit patch migration flight customer candidate vendor
    provider cloud team part release milestone day task item question slide figure table node batch
    job experiment attempt lesson unit player rule option variant plan schritt anforderung aufgabe
    kapitel rechnung bestellung paso pedido factura etape facture"""
)
WHICH = words(
    """next this last nächste nächsten diese dieser prochaine cette próxima esta questa volgende
    deze end"""
)
NUMBER_WORDS = {
    word: str(number)
    for number, listed in enumerate(
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
    for word in listed.split()
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

# words that add nothing to a claim's subject, beside stop words and cues
GENERIC = tokenizer.STOP_WORDS | words(
    """may um uh use used uses using set get got go going make made let lets please need want
    keep run runs work works working okay ok hi hello hey thanks anyway note noted previous
    previously current currently today
    way thing things bit lot great good bad news sure fine just decision
    conclusion value actual number amount requirement info information based
    das der die den dem des und ist sind
    wir ich es ein eine einen einem für mit auf von zu im in am an bei wird werden haben hat auch
    le la les un une des du de et est sont nous je il elle pour avec sur dans au aux que qui on
    el los las uno una y es son nosotros yo para con en al lo se que o os as um uma e do da dos das
    no na nos por com em il gli i uno e è sono per con di da che het een en is zijn wij we ik voor
    met op van in te dat и в на с по для мы я это к из"""
)
COPULAS = words(
    """is are = equals be been was were uses use used using on at to in with by via from for goes
    run runs
    lives listens stays becomes became ist sind bleibt wird nutzt verwendet auf bei mit est sont
    reste sur avec utilise es son está están usa usamos é são fica sono usa zijn blijft gebruikt
    owns handles needs requires takes costs expires ends starts begins due remains a v2"""
)
LABELS = words(
    """updat correct corrigendum alert heads fyi notic edit corrected remind korrektur correction
    correccion actualizacion nachtrag important critic reminder note info announc warn"""
)
# ranks of deciders; a role of several words before its parts
RANKS: dict[str, int] = {
    role: rank
    for rank, roles in enumerate(
        (
            """intern trainee junior individual engineer developer dev analyst contractor consultant
            vendor designer assistant associate freelancer employee colleague
            rep supplier praktikant entwickler stagiaire becario""",
            """team group lead manager supervisor coordinator foreman crew teamleiter abteilung
            equipo équipe jefe""",
            "director head vp ciso legal hr compliance svp evp directeur directora bereichsleiter",
            """ceo cto cfo coo c_level c-level c-suite chief president executive founder management
            geschäftsführung geschäftsführer pdg gerencia""",
            "board trustees committee shareholders regulator vorstand aufsichtsrat",
        )
    )
    for role in roles.split()
}
