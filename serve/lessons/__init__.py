"""
Lessons at work: which rule names a command or a file, whether it was followed, what it is worth.

Rules are memories (`serve.reader.memory_json.role`); how often they were shown and followed is
folded from the log (`store.derived.feedback`). Precision comes first: a wrong nudge costs more
trust than a missed one.
"""
