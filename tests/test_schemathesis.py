"""
schemathesis calls every operation of the document a few times at every push; `make torture` calls
it two hundred times.
"""

from api_memory import populated
from torture import operations

EXAMPLES = 3


def test_no_request_finds_a_fault(built):
    populated(built)
    with operations.served(built.tenant) as app:
        requests, problems = operations.asked(app, EXAMPLES)
    assert requests.keys() >= {"coverage", "fuzzing", "stateful"}
    assert not problems, "\n\n".join(f"{name}\n{text}" for name, text in sorted(problems.items()))
