"""One self-contained page about an audit: `summarize` arranges, `render` draws, `write_report` writes."""

from clovecal.report._content import Report
from clovecal.report._summarize import summarize
from clovecal.report.render import render, write_report

__all__ = ["Report", "render", "summarize", "write_report"]
