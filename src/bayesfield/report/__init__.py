"""A fitted posterior as one HTML file that needs nothing else: no network, no library, no server."""

from bayesfield.report.page import write_report

__all__ = ["write_report"]
