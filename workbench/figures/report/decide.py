"""Make the runs that undecided claims lack.

Each run is the profile ``decide`` of a figure notebook. Its results go to
:func:`workbench.runs.mill.decided_folder`, a stopped run continues, and the claims are
judged again with the results.
"""

from collections.abc import Sequence

from workbench.figures.report.claims import Claim, read_claims
from workbench.runs.engine import Say
from workbench.runs.mill import make


def lacks(claim: Claim) -> str:
    """Return a line of text on what a claim lacks."""
    cost = f"{claim.minutes:g} min of one core"
    if not claim.decide:
        cost = claim.command if claim.command.startswith("python ") else "no run"
    return f"{claim.claim} ({claim.paper}): {claim.number} [{cost}]"


def undecided(words: str) -> list[Claim]:
    """Return the claims that are not decided and have these words in their names.

    Claims that a run here would decide come first. Both groups are in the
    order of claims.toml.

    Raises
    ------
    ValueError
        If no claim has these words in its name.
    """
    named = [c for c in read_claims() if words.casefold() in c.claim.casefold()]
    if not named:
        raise ValueError(
            f"claim: no name contains {words!r}; `workbench decide` lists the names"
        )
    found = [claim for claim in named if claim.verdict == "not decided"]
    return sorted(found, key=lambda claim: not claim.decide)


def decide(claims: Sequence[Claim], hours: float | None, *, say: Say) -> list[str]:
    """Run the notebooks that would decide some claims, and report the verdicts.

    Parameters
    ----------
    claims : sequence of Claim
        Claims that are not decided, the most important first.
    hours : float or None
        A notebook is not begun if its time would not fit; None if there is no limit.
    say : callable
        Receives a line for each notebook, and one for each claim at the end.

    Returns
    -------
    failed : list of str
        The notebooks that failed.
    """
    chosen = [claim for claim in claims if claim.decide]
    left = float("inf") if hours is None else 60 * hours
    failed = []
    for notebook in dict.fromkeys(claim.decide for claim in chosen):
        minutes = max(claim.minutes for claim in chosen if claim.decide == notebook)
        if minutes > left:
            say(f"{notebook}: not run; takes {minutes:g} min, {left:.0f} min are left")
            continue
        left -= minutes
        failed += make([notebook], "decide", say=say)
    read_claims.cache_clear()
    names = {claim.claim for claim in claims}
    for claim in read_claims():
        if claim.claim in names:
            say(f"{claim.claim}: {claim.verdict}; {claim.number}")
    return failed
