"""
What the sorts of evidence and of answers are called, where people read them.
"""

SPOKEN = {
    "lexical": "words",
    "question": "question before",
    "before": "turn before",
    "after": "turn after",
    "session_vector": "session's vectors",
    "dated": "names a time",
    "personal": "first person",
    "parts": "parts of the question",
}
WANTS = {
    "when": "a time",
    "how_long": "how long",
    "who": "a person",
    "where": "a place",
    "how_many": "a number",
    "why": "a reason",
    "how": "a way",
    "what": "a thing",
    "yes_no": "a yes or no",
    "list": "all there is",
    "code": "code",
}
