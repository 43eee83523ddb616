"""
The pages of a tenant, in the order of the navigation.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A page of the navigation: its blueprint's name, its title, and its key after `g`.

    Its address is that of the blueprint's view `index`.
    """

    name: str
    title: str
    key: str

    @property
    def endpoint(self) -> str:
        return f"{self.name}.index"


PLACES = (
    Place("overview", "Overview", "o"),
    Place("memories", "Memories", "m"),
    Place("lab", "Recall lab", "r"),
    Place("graph", "Graph", "g"),
    Place("lessons", "Lessons", "l"),
    Place("goals", "Goals", "a"),  # "aims": o is taken
    Place("proposals", "Proposals", "p"),
    Place("jobs", "Jobs & snapshots", "j"),
    Place("access", "Tenants & tokens", "t"),
    Place("errors", "Errors", "e"),
)
