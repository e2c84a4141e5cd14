"""How measurements of speed are written: three digits, and one line about where they come from."""

import math
from collections.abc import Sequence

from mdpf.evaluation.measurements import Measurements


def figure(value: float) -> str:
    """Three digits; very small numbers by their power of ten."""
    if math.isnan(value):
        return "not measured"
    if value == 0 or abs(value) < 1e-3:
        return f"{value:.0e}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def made_by(measured: Sequence[Measurements]) -> str:
    """Who measured, on what, at which revision."""
    revisions = ", ".join(sorted({each.provenance.revision for each in measured}))
    devices = "; ".join(sorted({each.provenance.device for each in measured}))
    commands = ", ".join(f"`{command}`" for command in sorted({each.provenance.command for each in measured}))
    torch = ", ".join(sorted({each.provenance.versions["torch"] for each in measured}))
    return f"*Measured by {commands} at revision {revisions}, {devices}, torch {torch}.*"
