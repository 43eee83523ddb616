"""
Lessons at work: the rules that name a command or file, whether they were followed, their worth.

Rules are memories (`serve.reader.memory_json.role`); how often they were shown and followed is
folded from the log (`store.derived.feedback`). Precision comes first: a wrong nudge costs more
trust than a missed one.
"""
