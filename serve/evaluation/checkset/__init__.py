"""
The check set: memories of a made-up project, and notes in thirteen languages, with queries.

It was written for mnemolog, is small enough to be run by night and in the tests, and says whether
recall still works, not how good it is: no setting is chosen by it.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
PROJECT, LANGUAGES = "project/", "languages/"  # the workspaces' names begin so
# Categories beside the languages: English questions about the others' notes, and questions that
# say a note's words in another grammatical form. They are reported and have no floor.
HARDER = ("English", "other word forms")
