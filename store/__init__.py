"""The memory: the log, what is derived from it, and how both lie on disk. No web, no scheduler, no
LLM.
"""
