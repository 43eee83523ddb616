"""Figures of one tenant: what it holds, how it grew, how it answers, what it costs."""
