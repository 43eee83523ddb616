"""
Adapters: a memory in place of an agent library's own. A module each, which needs that library
installed; nothing else in this package imports them.
"""
