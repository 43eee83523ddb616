"""
Logging in and out: the link that works once, the form behind it, and the cookie it is changed for.

Opening the link changes nothing, as a GET may not: the page it shows sends the key by a form, at
once where scripts run. Only the owner's token makes keys, so nobody can be logged in as another.
"""

from collections.abc import Callable
from http import HTTPStatus

import msgspec
from flask import Blueprint, Response, g, redirect, render_template, request
from werkzeug.exceptions import RequestEntityTooLarge

from serve.server.problems import problem
from serve.server.request_guard import owner_only
from store.home.http_access import SESSION_LIVES_S, Keys, Signer
from store.home.instants import isoformat

_LONGEST = 200  # characters of a key that are looked at
_MOST = 4_096  # bytes of its form: nobody is known yet, and a large one takes seconds to take apart


def blueprint(
    keys: Keys, signer: Signer, clock: Callable[[], int], prepare: Callable[[], None]
) -> Blueprint:
    """Return the routes by which the owner gets in and out.

    `prepare` is called when a key is made: somebody is about to look at a page.
    """
    pages = Blueprint("login", __name__)

    @pages.post("/v1/logins")
    def make_key() -> Response:
        if (refused := owner_only()) is not None:
            return refused
        prepare()
        key, ends = keys.make(clock())
        said = {"path": f"/login?key={key}", "expires_at": isoformat(ends)}
        return Response(msgspec.json.encode(said), HTTPStatus.CREATED, mimetype="application/json")

    @pages.get("/login")
    def show() -> str | Response:
        key = request.args.get("key", "")[:_LONGEST]
        if not key and "login" in g:
            return _to("/")
        return render_template("login.html", key=key)

    @pages.post("/login")
    def enter() -> Response:
        now = clock()
        if (request.content_length or 0) > _MOST:
            raise RequestEntityTooLarge
        if not keys.take(request.form.get("key", "")[:_LONGEST], now):
            return problem("link_spent", "run `mnemolog dashboard` again: it makes a new link")
        answer = _to("/")
        answer.set_cookie(
            signer.cookie,
            signer.value(now),
            max_age=SESSION_LIVES_S,
            path="/",
            httponly=True,
            samesite="Strict",
        )
        return answer

    @pages.post("/logout")
    def leave() -> Response:
        signer.end(g.login, clock())
        answer = _to("/login")
        answer.delete_cookie(signer.cookie, path="/", httponly=True, samesite="Strict")
        return answer

    return pages


def _to(path: str) -> Response:
    answer = redirect(path, HTTPStatus.SEE_OTHER)
    assert isinstance(answer, Response)
    return answer
