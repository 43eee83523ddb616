"""
Which failures a retry may cure. What was refused once would only be refused again.

No asset is given this policy itself: Dagster tries a step that has one again after Ctrl-C too
(`op_execution_error_boundary`, 1.13), and a build could not be stopped.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from store.errors import BuildRefused, EmbedderError, LogBusy, LogFull, MnemologError

RETRIES = dg.RetryPolicy(max_retries=2, delay=1.0, backoff=dg.Backoff.EXPONENTIAL)
_PASSING = (LogBusy, LogFull, EmbedderError, OSError)


@contextmanager
def classified(retry_number: int) -> Iterator[None]:
    """Ask for a retry of what may pass, and fail at once with our own errors that will not.

    `retry_number` is 0 in a step's first attempt.
    """
    try:
        yield
    except _PASSING as error:
        raise dg.RetryRequested(
            RETRIES.max_retries, RETRIES.calculate_delay(retry_number + 1)
        ) from error
    except BuildRefused as error:
        reasons = "\n".join(f"- {reason}" for reason in str(error).split("; "))
        raise dg.Failure(
            str(error), metadata={"why": dg.MetadataValue.md(reasons)}, allow_retries=False
        ) from error
    except MnemologError as error:
        raise dg.Failure(f"{type(error).__name__}: {error}", allow_retries=False) from error
