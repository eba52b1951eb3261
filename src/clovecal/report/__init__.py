"""One self-contained page about an audit: `summarize` computes, `render` draws, `write_report` writes."""

from clovecal.report._content import Report
from clovecal.report.render import render, write_report
from clovecal.report.summarize import summarize

__all__ = ["Report", "render", "summarize", "write_report"]
