"""Pieces of prose and tables: lists as English, numbers as readers write them, markdown."""

from clovecal._text import listed, markdown, short_number

__all__ = ["listed", "markdown", "short_number"]
