"""
English words that say nothing about what a text is about, question words among them.

Question words are here because a memory answers a question without repeating it: leaving them
out of index and query was worth six points of recall on LoCoMo. Negations (no, not, never) and
the month of May are not here: they distinguish memories.
"""

STOP_WORDS = frozenset(
    """
    a about above after again against ain all also although am among an and another any
    anybody anyone anything are aren as at be became because been before being below between both
    but by can cannot could couldn did didn do does doesn doing don done down during each either
    else ever every everybody everyone everything few for from further had hadn has hasn have
    haven having he hence her here hers herself him himself his how however i if in into is isn
    it its itself just least less let lets like ll lot many maybe me mightn more most much must
    mustn my myself needn neither nobody none nor now of off often on once one only onto or other
    others otherwise our ours ourselves out over own per perhaps please quite rather re really
    said same say says shall shan she should shouldn since so some somebody someone something
    sometimes somewhere still such than that thats the their theirs them themselves then there
    therefore these they thing things this those though through thus to together too toward
    towards under unless until up upon us ve very via was wasn we were weren what whatever whats
    when whenever where whereas whether which whichever while who whoever whom whose why will
    with within without won would wouldn yes yet you your yours yourself yourselves
    """.split()
)
