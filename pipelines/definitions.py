"""The `Definitions` object that Dagster loads; workspace.yaml names this file."""

from pipelines.orchestration.definitions import make_definitions
from store.home import config

defs = make_definitions(config.load())
