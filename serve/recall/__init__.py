"""From a question to an answer: query analysis, candidates, evidence, ranking, selection,
explanation. `recall.recall` runs them in this order; each stage is a module of its name.
"""
