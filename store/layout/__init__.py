"""
How a graph is drawn: its communities, and a place in the plane for each node.

Only operations that IEEE 754 fixes to the last bit, and sums in order: a picture that is drawn
again, on another machine or by another numpy, is the same.
"""
