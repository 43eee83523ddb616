"""The way into the dashboard: keys that work once, and the cookie they are changed for."""

import msgspec
import pytest

from serve.dashboard.page_context import LIVES_US, MOST, Flash, Flashes
from store.home import config
from store.home.http_access import KEY_LIVES_US, MOST_KEYS, SESSION_LIVES_S, Keys, Signer, signer

NOW = 1_800_000_000_000_000
TOKEN = "the-owner's-token"


def owners(token: str = TOKEN) -> Signer:
    """Return the signer of the test's home, as a server that has just started makes it."""
    return signer(token, config.load())


def test_a_key_works_once():
    keys = Keys()
    key, ends = keys.make(NOW)
    assert ends == NOW + KEY_LIVES_US
    assert keys.take(key, NOW + 1)
    assert not keys.take(key, NOW + 2)


def test_a_key_ends_after_two_minutes():
    keys = Keys()
    key, ends = keys.make(NOW)
    assert not keys.take(key, ends)


@pytest.mark.parametrize("sent", ["", "wrong", "é\ud800", "x" * 100_000])
def test_a_wrong_key_opens_nothing_and_costs_no_other(sent):
    keys = Keys()
    key, _ = keys.make(NOW)
    assert not keys.take(sent, NOW)
    assert keys.take(key, NOW)


def test_few_keys_wait_and_the_oldest_gives_way():
    keys = Keys()
    made = [keys.make(NOW)[0] for _ in range(MOST_KEYS + 1)]
    assert [keys.take(key, NOW) for key in made] == [False, *[True] * MOST_KEYS]


def test_a_key_is_kept_as_a_hash():
    keys = Keys()
    key, _ = keys.make(NOW)
    assert key not in repr(vars(keys))


def test_a_session_is_the_owners_and_lasts_over_a_restart():
    cookie = owners().value(NOW)
    session = owners().session(cookie, NOW + 1)
    assert session is not None
    assert session.ends_at == NOW // 1_000_000 + SESSION_LIVES_S


def test_a_session_ends_after_its_hours():
    cookie = owners().value(NOW)
    hours = SESSION_LIVES_S * 1_000_000
    assert owners().session(cookie, NOW + hours - 1_000_000)
    assert owners().session(cookie, NOW + hours) is None


def test_a_new_token_of_the_owner_ends_every_session():
    assert owners("another").session(owners().value(NOW), NOW) is None
    assert owners("another").cookie != owners().cookie


def test_a_session_that_was_logged_out_opens_nothing_and_no_other_ends():
    signing = owners()
    cookie, other = signing.value(NOW), signing.value(NOW)
    session = signing.session(cookie, NOW)
    assert session is not None
    signing.end(session, NOW)
    assert signing.session(cookie, NOW) is None
    assert signing.session(other, NOW) is not None


def test_a_session_that_was_logged_out_stays_so_after_a_restart_and_at_another_port():
    at_another_port, cookie = owners(), owners().value(NOW)
    session = at_another_port.session(cookie, NOW)
    assert session is not None
    owners().end(session, NOW)
    assert owners().session(cookie, NOW) is None
    assert at_another_port.session(cookie, NOW) is None


def test_what_was_logged_out_is_kept_no_longer_than_its_cookie_lasts(home):
    signing = owners()
    later = NOW + SESSION_LIVES_S * 1_000_000
    for now in (NOW, later):
        session = signing.session(signing.value(now), now)
        assert session is not None
        signing.end(session, now)
    kept = msgspec.json.decode((home / "sessions.json").read_bytes())
    assert list(kept["ended"]) == [session.nonce]


@pytest.mark.parametrize("damage", [b"", b"[1]", b"\xff", b'{"ended": {"a": "b"}}'])
def test_a_damaged_list_of_ended_sessions_ends_all_until_the_next_login(home, damage):
    cookie = owners().value(NOW)
    home.mkdir()
    (home / "sessions.json").write_bytes(damage)
    assert owners().session(cookie, NOW + 1) is None
    fresh = owners().value(NOW + 1_000_000)
    assert owners().session(fresh, NOW + 1_000_000) is not None
    assert owners().session(cookie, NOW + 1_000_000) is None


def test_what_was_logged_out_is_its_owners_file_alone(home):
    signing = owners()
    session = signing.session(signing.value(NOW), NOW)
    assert session is not None
    signing.end(session, NOW)
    assert (home / "sessions.json").stat().st_mode & 0o077 == 0


def test_no_byte_of_a_cookie_can_be_changed():
    signing = owners()
    cookie = signing.value(NOW)
    for place in range(len(cookie)):
        for put in "A9.-":
            changed = cookie[:place] + put + cookie[place + 1 :]
            assert changed == cookie or signing.session(changed, NOW) is None


@pytest.mark.parametrize("sent", [None, "", ".", "..", "...", "9.9.9", "é.\ud800.x", "1" * 10_000])
def test_what_is_no_cookie_is_nobody(sent):
    assert owners().session(sent, NOW) is None


def test_each_session_has_a_csrf_token_of_its_own_and_no_cookie_tells_it():
    signing = owners()
    first, second = (signing.value(NOW) for _ in range(2))
    one, other = (signing.session(cookie, NOW) for cookie in (first, second))
    assert one is not None and other is not None
    assert one.csrf != other.csrf
    assert one.csrf not in first
    assert first.rpartition(".")[2] != one.csrf


def test_a_cookie_tells_nothing_of_the_token():
    signing = owners()
    assert TOKEN not in signing.value(NOW) + signing.cookie


def test_a_flash_is_found_by_its_name_for_a_while():
    flashes = Flashes()
    name = flashes.keep(Flash("done"), NOW)
    assert flashes.get(name, NOW + 1) == Flash("done")
    assert flashes.get(name, NOW + LIVES_US) is None
    assert flashes.get("<b>", NOW) is None
    assert flashes.get(None, NOW) is None


def test_only_so_many_flashes_are_kept():
    flashes = Flashes()
    first = flashes.keep(Flash("first"), NOW)
    for _ in range(MOST):
        flashes.keep(Flash("more"), NOW)
    assert flashes.get(first, NOW) is None
