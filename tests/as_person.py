"""The program as a person runs it at a terminal: `python -P tests/as_person.py WORDS`."""

import sys

from serve.cli import environment, main
from serve.cli.presence import PERSON

AS_PERSON = (sys.executable, "-P", __file__)

if __name__ == "__main__":
    environment.presence = lambda: PERSON
    main()
