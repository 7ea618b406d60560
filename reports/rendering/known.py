"""What is known of arms: what nobody counted, or what never occurs, is left out of tables."""

from collections.abc import Mapping, Sequence

from reports.types import STATES, ArmSummary


def count_cells(arms: Sequence[ArmSummary]) -> Mapping[str, Mapping[str, int]]:
    """Return the numbers of planned cells by name of their state and by arm.

    Resolved and unresolved cells are always there, others if there are any. Cells that are suspect
    or not audited are there if any cell was audited.
    """
    counts = {name: {arm.name: arm.states[state] for arm in arms} for state, name in STATES.items()}
    occurring = {
        name: cells
        for name, cells in counts.items()
        if any(cells.values()) or name in (STATES["resolved"], STATES["unresolved"])
    }
    if sum(arm.unaudited for arm in arms) < sum(arm.resolved for arm in arms):
        occurring["suspect"] = {arm.name: arm.suspect for arm in arms}
        occurring["not audited"] = {arm.name: arm.unaudited for arm in arms}
    return occurring


def has_tokens(arms: Sequence[ArmSummary]) -> bool:
    """Return True if any number of tokens of any arm is known and not 0."""
    return any(tokens for arm in arms for tokens, _ in arm.tokens.sums)
