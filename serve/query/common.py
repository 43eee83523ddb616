"""
Words that say little of what a question is about, and yet are no stop words: a memory may turn on
them ("keep the branch"), but that one holds them, or does not, tells nothing of its topic.
"""

from store.text import tokenizer

# English; in other languages every word counts in full
COMMON = frozenset(
    tokenizer.terms(
        """
        ask asked become bring brought call called change changed come came do done end find found
        finish get got gotten give gave given go went gone going good happen happened help keep kept
        kind know knew known lead left like look made make mean means meant mention need new old put
        receive run saw see seen set share show shown sort start stop suggest take took taken talk
        tell told thing think thought time tried try turn type use used want way work write wrote
        """
    )
)
SHARE = 0.3  # of its weight, for such a word in the gate
