"""What a question says. All but `analysis`, which asks the memory and the embedder too, are pure
functions of its words.
"""
