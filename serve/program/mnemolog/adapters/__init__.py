"""
Adapters: a memory where an agent library asks for one of its own. A module each, which needs that
library installed; nothing else of this package imports them.
"""
