"""Putting away what nobody asks for any more, and what old receipts take up."""
