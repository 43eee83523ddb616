"""
Lessons in use: the rules that name a command or file, their verdicts and their impact.

Rules are memories (`serve.reader.memory_json.role`); their counts of shown and followed are folded
from the log (`store.derived.feedback`). Precision comes first: a wrong nudge costs more trust than
a missed one.
"""
