"""
Ordinary sessions: a project's days without anything that a later session needs.

A story of three sessions is a small part of a project's life. This adds any number of chores about
the project's own files between and after them: features, errors, renames, questions, "continue";
and, for a few of the lines in tests/data/deeds, a turn in which the user lays down a rule, and a
probe that asks for the deed it is about. The same seed gives the same life.
"""

import random
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

DEEDS = Path(__file__).parents[1] / "data" / "deeds" / "rules.tsv"
Session = dict[str, Any]

_WORDS = {
    "en": {
        "thing": """a filter by status;an export button;a loading spinner;paging in the list;a copy
            link;sorting by date;a search box;a health check;a retry;an archive view;a summary line;
            a print view;an undo;keyboard shortcuts;a progress bar;a debug view;an import preview;
            a column for notes;an admin page;a weekly report""",
        "do": """add {thing};can you add {thing} in {file};next is {thing};{who} asks for {thing};
            we need {thing};now {thing};please put in {thing};{who} wants {thing} in {file};
            two things: {thing}, and rename {word} to {word}_id in {file}""",
        "mend": """{error};got this again:\n{error};what is this\n{error};{error}\nfix it;
            {who} reports {error}""",
        "ask": """what does {file} do;where do we set {word};who calls {word};is everything up;
            status?;how is it going""",
        "go": "continue;yes do that;go on;again;ok;thanks;same as last time;looks good;push it",
        "tidy": """run the linter;split {file} in two;{who} says {word} is confusing, find a better
            name;make the naming of {word} consistent;fix the typo in {file};remove the dead code in
            {file};{who}'s comments: rename {word}, and the list is too long""",
        "done": """{thing} is in, with a test.;{file} is changed and everything is green.;Done, {n}
            tests pass.;The cause was a missing check in {file} and is there now.;{word} is renamed
            in {n} places.""",
        "told": """{file} reads {word}, checks it and hands it on.;{word} is set in {file}.;All is
            up.;Nothing unusual in the log.""",
    },
    "de": {
        "thing": """ein filter nach status;einen knopf zum exportieren;blättern in der liste;
            sortieren nach datum;ein suchfeld;eine druckansicht;rückgängig;tastenkürzel;
            einen fortschrittsbalken;eine spalte für notizen;einen wochenbericht;eine vorschau""",
        "do": """bau {thing} ein;{thing} in {file};als nächstes {thing};{who} möchte {thing};
            wir brauchen {thing};jetzt {thing};zwei sachen: {thing}, und {word} umbenennen""",
        "mend": "{error};schon wieder:\n{error};was ist das\n{error};{error}\nbitte beheben",
        "ask": "was macht {file};wo wird {word} gesetzt;läuft alles;stand?",
        "go": "weiter;ja mach;nochmal;ok;danke;wie gestern;passt;push",
        "tidy": """linter laufen lassen;{file} aufteilen;{who} findet {word} verwirrend, such einen
            besseren namen;tippfehler in {file};toten code aus {file} entfernen""",
        "done": """{thing} ist drin, mit test.;{file} ist geändert, alles grün.;Fertig, {n} Tests
            laufen durch.;Es fehlte eine Prüfung in {file}, sie ist jetzt da.""",
        "told": "{file} liest {word} und reicht es weiter.;{word} steht in {file}.;Alles läuft.",
    },
    "fr": {
        "thing": """un filtre par statut;un bouton d'export;la pagination;le tri par date;
            un champ de recherche;une vue d'impression;des raccourcis clavier;
            une barre de progression;une colonne de notes;un rapport hebdomadaire""",
        "do": """ajoute {thing};mets {thing} dans {file};ensuite {thing};{who} demande {thing};
            il nous faut {thing};maintenant {thing}""",
        "mend": "{error};encore ça :\n{error};c'est quoi\n{error};{error}\ncorrige",
        "ask": "que fait {file};où est défini {word};tout tourne ?;où on en est ?",
        "go": "continue;oui vas-y;encore;ok;merci;comme hier;parfait",
        "tidy": """passe le linter;coupe {file} en deux;{who} trouve {word} confus, trouve mieux;
            corrige la coquille dans {file}""",
        "done": """{thing} est en place, avec un test.;{file} est modifié, tout est vert.;Fait,
            {n} tests passent.;Il manquait un contrôle dans {file}.""",
        "told": "{file} lit {word} et le transmet.;{word} est défini dans {file}.;Tout tourne.",
    },
    "es": {
        "thing": """un filtro por estado;un botón de exportar;la paginación;el orden por fecha;
            un buscador;una vista de impresión;atajos de teclado;una barra de progreso;
            una columna de notas;un informe semanal""",
        "do": """añade {thing};pon {thing} en {file};ahora {thing};{who} pide {thing};
            hace falta {thing};luego {thing}""",
        "mend": "{error};otra vez:\n{error};qué es esto\n{error};{error}\narréglalo",
        "ask": "qué hace {file};dónde se define {word};va todo?;cómo vamos?",
        "go": "sigue;sí hazlo;otra vez;ok;gracias;como ayer;perfecto",
        "tidy": """pasa el linter;parte {file} en dos;{who} dice que {word} confunde, busca otro
            nombre;corrige la errata en {file}""",
        "done": """{thing} ya está, con test.;{file} cambiado y todo en verde.;Hecho, pasan {n}
            tests.;Faltaba una comprobación en {file}.""",
        "told": "{file} lee {word} y lo pasa.;{word} se define en {file}.;Todo va.",
    },
}  # fmt: skip
_ERRORS = (
    "TypeError: cannot read properties of undefined (reading '{word}') at {file}:{n}",
    "error[E0502]: cannot borrow `{word}` as mutable --> {file}:{n}",
    "KeyError: '{word}' ({file}, line {n})",
    "panic: index out of range [{n}] with length {n} in {file}",
    "context deadline exceeded while waiting for {word}",
    "AssertionError: expected {n} to equal 0 in {file}",
    "ConnectionResetError: {word} closed the connection",
)
_PEOPLE = ("Tove", "Iker", "Bas", "the new colleague", "support", "Mirja")


class Chores:
    """Ordinary sessions of a project, in its own language."""

    def __init__(self, story: Session, seed: int) -> None:
        self._random = random.Random(f"{story['name']} {seed}")
        self._words = _WORDS.get(story.get("language", "en"), _WORDS["en"])
        steps = [
            step
            for session in story["sessions"]
            for turn in session["turns"]
            for step in turn.get("steps", ())
        ]
        inside = f"/{story['name']}/"
        files = [str(step["input"].get("file_path", "")).rpartition(inside)[2] for step in steps]
        self._files = sorted({file for file in files if file}) or ["src/main.py", "README.md"]
        ran = [str(step["input"].get("command", "")) for step in steps]
        self._commands = sorted({text for text in ran if text and len(text) < 60}) or ["make test"]
        self._names = sorted({Path(file).stem for file in self._files if len(Path(file).stem) > 3})

    def _pick(self, kind: str, without: str = "-") -> str:
        lines = [part.strip() for part in self._words[kind].split(";")]
        line = self._random.choice([other for other in lines if without not in other])
        return line if kind == "mend" else " ".join(line.split())

    def turn(self) -> Session:
        kind = self._random.choices(("do", "mend", "ask", "go", "tidy"), (34, 18, 20, 16, 12))[0]
        payload = {
            "file": self._random.choice(self._files),
            "word": self._random.choice(self._names),
            "who": self._random.choice(_PEOPLE),
            "n": str(self._random.randrange(3, 400)),
            "thing": self._pick("thing"),
        }
        payload["error"] = self._random.choice(_ERRORS).format(**payload)
        prompt = self._pick(kind).format(**payload)
        steps: list[Session] = []
        if kind in ("do", "mend", "tidy"):
            file, word = payload["file"], payload["word"]
            change = {"file_path": file, "old_string": word, "new_string": "next"}
            ran = {"command": self._random.choice(self._commands)}
            steps = [
                {"tool": "Edit", "input": change, "ok": True, "output": ""},
                {"tool": "Bash", "input": ran, "ok": True, "output": f"{payload['n']} passed"},
            ]
        elif kind == "ask":
            steps = [{"tool": "Read", "input": {"file_path": payload["file"]}, "ok": True}]
        other = "{word}" if kind == "do" else "{thing}"
        final = self._pick("told" if kind in ("ask", "go") else "done", other).format(**payload)
        return {"prompt": prompt, "steps": steps, "final": final}

    def sessions(self, count: int) -> Iterator[Session]:
        for _ in range(count):
            yield {"turns": [self.turn() for _ in range(self._random.randrange(1, 4))]}


def rules(language: str, count: int, seed: int) -> list[list[str]]:
    """Return some rules: language, rule, words in its note, prompt, and the tool's deed."""
    lines = DEEDS.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    own = [line for line in rows if line[0] == language]
    return random.Random(f"{language} {seed}").sample(own, min(count, len(own)))


def life(story: Session, count: int, ruled: int = 8, seed: int = 0) -> Session:
    """Return a story with `count` ordinary sessions between and after its own, and `ruled` rules
    with a probe each."""
    chores = Chores(story, seed)
    days = list(chores.sessions(count))
    order = random.Random(f"order {story['name']} {seed}")
    laid_down = rules(story.get("language", "en"), ruled, sum(map(ord, story["name"])) + seed)
    special = [session["turns"] for session in story["sessions"]]
    for _, rule, *_ in laid_down:
        turn = chores.turn() | {"prompt": rule, "final": "OK."}
        days[order.randrange(count)]["turns"].insert(0, turn)
    places = sorted(order.sample(range(max(1, count * 2 // 3)), len(special)))
    for place, turns in reversed(list(zip(places, special, strict=True))):
        days.insert(place, {"turns": turns})
    probes = [
        {"id": f"{story['name']}-deed-{at}", "kind": "deed", "prompt": prompt, "needs": [[needs]]}
        for at, (_, _, needs, prompt, _) in enumerate(laid_down)
    ]
    first = date(2026, 1, 2)
    for at, day in enumerate(days):
        day["date"] = (first + timedelta(days=at)).isoformat()
    return {**story, "sessions": days, "probes": [*story["probes"], *probes]}
