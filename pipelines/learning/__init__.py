"""The jobs that learn, as Dagster's assets: what they propose, what must hold, when they run."""
