"""
The Definitions object: what Dagster loads. Here things are only put together.
"""

from pipelines.orchestration.definitions import make_definitions
from store.home import config

defs = make_definitions(config.load())
