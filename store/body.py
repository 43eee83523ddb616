"""
Body: what an event says beyond its envelope, and the types its fields are made of.
"""

from datetime import datetime
from typing import Annotated

import msgspec

Unit = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Seconds = Annotated[int, msgspec.Meta(gt=0, le=100 * 366 * 86_400)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Id = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")]
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Key = Annotated[str, msgspec.Meta(pattern=r"\A[^\s.][^\s]*\.[^\s]*[^\s.]\Z", max_length=200)]

# what is checked elsewhere, with an error of its own, is told to programs here
Project = Annotated[
    str, msgspec.Meta(extra_json_schema={"pattern": r"^[A-Za-z0-9~@][A-Za-z0-9._@/~+-]{0,199}$"})
]
Instant = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an event says beyond its envelope."""
