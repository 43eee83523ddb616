"""
What can go wrong between a program and its memory.

    Error
    ├── NoServer              no server of this home runs
    ├── Unreachable           the server does not answer, or hung up
    ├── Unreadable            what answers is no memory's server, or of another version
    ├── StillRunning          a job is not done in the time that was given it
    ├── JobFailed             an accepted batch could not be recorded
    └── Refused               the server said no; by its `code`, in problem details (RFC 9457)
        ├── Invalid           what was sent cannot be used
        ├── Unauthorized      there is no token, or an unknown one
        ├── Forbidden         the token may not do this
        ├── NotFound          there is no such thing, or not for this token
        ├── Conflict          it is in another state, or its id stands for something else
        ├── Changed           it has changed since it was read
        ├── RateLimited       the token asks too often
        ├── Unavailable       the server cannot do it just now
        └── Failed            a defect, or a disk that is full
"""

from collections.abc import Mapping


class Error(Exception):
    """The base of all."""


class NoServer(Error):
    """No server of this home runs: start one with `mnemolog start`."""


class Unreachable(Error):
    """The server does not answer, or hung up; whether it did what was asked is not known."""


class Unreadable(Error):
    """What answers is no memory's server, or one of another version."""


class StillRunning(Error):
    """A job is not done in the time that was given it; it goes on."""


class JobFailed(Error):
    """An accepted batch could not be recorded; the job says why."""


class Refused(Error):
    """The server said no. `code` is for programs and stays, `detail` names the thing and the cure.

    `retry_after_s` is how long the server asks to wait, where it says so.
    """

    def __init__(
        self,
        code: str,
        status: int,
        title: str = "",
        detail: str = "",
        instance: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(detail or title or code)
        self.code, self.status = code, status
        self.title, self.detail, self.instance = title, detail, instance
        self.retry_after_s = retry_after_s


class Invalid(Refused):
    """What was sent cannot be used."""


class Unauthorized(Refused):
    """There is no token, or an unknown one."""


class Forbidden(Refused):
    """The token may not do this."""


class NotFound(Refused):
    """There is no such thing, or not for this token."""


class Conflict(Refused):
    """It is in another state, or its id stands for something else."""


class Changed(Refused):
    """It has changed since it was read: get it again."""


class RateLimited(Refused):
    """The token asks too often: wait `retry_after_s`."""


class Unavailable(Refused):
    """The server cannot do it just now: wait `retry_after_s`."""


class Failed(Refused):
    """A defect, or a disk that is full."""


# 422 says that an idempotency key was used for something else; 421 that the server is another
_BY_STATUS: Mapping[int, type[Refused]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Changed,
    422: Conflict,
    429: RateLimited,
    503: Unavailable,
}


def refusal(status: int) -> type[Refused]:
    """Return the error of a status; each code has one."""
    return _BY_STATUS.get(status, Invalid if status < 500 else Failed)
