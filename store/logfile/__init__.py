"""The file behind the event log: its rows, how they are written, and how one is blanked."""
