"""How far a posterior may be trusted: a line on stderr, and an exit code where that is not far."""

from __future__ import annotations

import typer
from rich.markup import escape

import bayesfield as bf
from bayesfield.cli.app import NOT_CONVERGED, POOR, notes
from bayesfield.posterior.views import certificate_of

_COLOURS = {"good": "green", "fair": "yellow", "poor": "bold red"}


def tell(posterior: bf.Posterior, name: str = "") -> None:
    """The verdict and its advice. name: which of several posteriors."""
    certificate = certificate_of(posterior)
    of = f"{escape(name)}: " if name else ""
    if certificate is None:
        notes.print(f"{of}trust: not judged by the fit", highlight=False, soft_wrap=True)
        return
    colour, verdict = _COLOURS[certificate.verdict], certificate.verdict
    line = f"{of}trust: [{colour}]{verdict}[/]: {escape(certificate.advice)}"
    notes.print(line, highlight=False, soft_wrap=True)


def conclude(posterior: bf.Posterior) -> None:
    """What commands end with that use one posterior."""
    tell(posterior)
    end(posterior)


def end(*posteriors: bf.Posterior) -> None:
    """End with another code than 0 where one of them is poor; what was asked for is done and written before."""
    if any(_poor(p) for p in posteriors):
        raise typer.Exit(POOR)


def end_fit(posterior: bf.Posterior) -> None:
    """The same after a fit: one that did not converge has a code of its own."""
    if not posterior.record.status.converged or not posterior.record.inference.converged:
        raise typer.Exit(NOT_CONVERGED)
    end(posterior)


def _poor(posterior: bf.Posterior) -> bool:
    certificate = certificate_of(posterior)
    return certificate is not None and certificate.verdict == "poor"
