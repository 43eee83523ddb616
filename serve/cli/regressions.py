"""Commands that keep an answer as it was, or say why it is not: `expect`."""

from typing import TYPE_CHECKING

import click

from serve.cli import arguments, environment, output
from serve.cli.environment import Environment
from serve.cli.group import FAILED
from store.home.config import Settings
from store.log.event_log import EventLog

if TYPE_CHECKING:
    from serve.evaluation.expectations import Outcome
    from serve.reader.reader import Reader
    from store.embedders.embedder import Embedder


@click.command(
    epilog=output.example(
        'mnemolog expect "how often is an upload retried" 01KA2B3C4D',
        "mnemolog expect                 # ask every pinned question now",
        'mnemolog expect "how often is an upload retried" 01KA2B3C4D --remove',
    )
)
@click.argument("question", required=False)
@click.argument("id_", metavar="[ID]", required=False, type=arguments.MEMORY)
@click.option("--remove", is_flag=True, help="Remove the pin.")
@click.option(
    "--project", type=arguments.PROJECT, help="The project; default: that of the working directory."
)
@click.option("--all-projects", is_flag=True, help="Ask in all projects.")
@output.json_option
@click.pass_context
def expect(
    context: click.Context,
    question: str | None,
    id_: str | None,
    remove: bool,
    project: str | None,
    all_projects: bool,
    as_json: bool,
) -> None:
    """Pin QUESTION to the memory ID that must answer it. Every build asks it again.

    A copy of the memory counts, and so does what took its place. A build whose answer lacks it
    warns: `mnemolog doctor` names the question. Without arguments, ask all pinned questions now;
    the exit code is 1 if one does not bring back its memory.
    """
    from serve.evaluation import expectations

    env: Environment = context.obj
    settings, now = env.settings(), environment.now()
    if (question is None) != (id_ is None):
        raise click.UsageError("give a question and the ID of the memory that must answer it")
    with environment.open_log(settings) as log:
        if question is None or id_ is None:
            if remove:
                raise click.UsageError("--remove needs the question and the ID")
            asked = expectations.list_expectations(log)
        else:
            from store.log.commands import resolve

            belongs = environment.project_or_default(settings, project, none=all_projects)
            wanted = resolve(log, id_)
            text = output.encodable(question)
            asked = [expectations.expect(log, text, wanted, belongs, now, expected=not remove)]
        if remove:
            _print_removed(log, asked[0].question, asked[0].id, as_json=as_json)
            return
        reader, model = _open(settings, log)
        found = reader.answer(
            lambda view: expectations.ask(view, asked, model, settings.choices, now)
        )
        if as_json:
            output.emit({"expected": found})
        else:
            _print_expected(log, found)
    if question is None and any(one.rank is None for one in found):
        context.exit(FAILED)


def _open(settings: Settings, log: EventLog) -> "tuple[Reader, Embedder]":
    from serve.reader.reader import Reader
    from serve.recall.query_embedder import QueryEmbedder
    from store.embedders.embedder import make_embedder

    model = QueryEmbedder(make_embedder(settings.choices.embedder, settings.home, while_asked=True))
    return Reader(environment.current_tenant(settings), log, model), model


def _print_removed(log: EventLog, question: str, id_: str, *, as_json: bool) -> None:
    if as_json:
        output.emit({"question": question, "id": id_, "removed": True})
    else:
        output.say(f'no longer expected of "{output.one_line(question)}"')


def _print_expected(log: EventLog, found: "list[Outcome]") -> None:
    if not found:
        output.say('no question is pinned. Pin one: `mnemolog expect "QUESTION" ID`')
        return
    output.table(
        ["result", "question", "memory", "text"],
        [
            [
                "missing" if one.rank is None else str(one.rank),
                output.one_line(one.expectation.question, 60),
                output.short_id(log, one.expectation.id),
                output.first_words(log, one.expectation.id),
            ]
            for one in found
        ],
    )
    if any(one.rank is None for one in found):
        output.note("next: `mnemolog bisect QUESTION --expect ID` names the event since which")
