"""The statistics of a report, one small function each, with its reference.

proportions  a share of cells and its interval
paired       two arms over the same cells: table, tests, interval of the difference, margin
signflip     the exact test behind all p-values, by instance
bootstrap    resampling of instances or repositories, for any function of sums
amounts      cost, tokens and time: ratios, differences of means
studentized  differences of skewed amounts and cost per resolved cell, for few instances
repeats      repeated attempts at an instance: pass@k and intraclass correlation
families     several comparisons at once
ranks        agreement of two rankings
frontier     arms that no other arm or mixture of arms beats on cost and resolution
netbenefit   value of what is resolved less its cost, and the arm with the most of it
fieller      limits of a ratio of two means
power        the differences that a planned experiment can detect

These functions depend on neither lake nor marts: they take and return numbers.
"""

from reports.statistics.amounts import (
    difference_of_means,
    ratio_of_costs_per_resolved,
    ratio_of_sums,
)
from reports.statistics.bootstrap import Bootstrap, settings_for
from reports.statistics.families import benjamini_hochberg, holm
from reports.statistics.fieller import fieller_interval
from reports.statistics.frontier import efficient_frontier
from reports.statistics.netbenefit import acceptability, net_benefit, preferred
from reports.statistics.paired import (
    instance_leads,
    is_non_inferior,
    mcnemar_exact,
    mcnemar_mid_p,
    newcombe_interval,
    paired_table,
)
from reports.statistics.power import (
    effective_pairs,
    instances_needed,
    mcnemar_power,
    pairs_needed,
    smallest_detectable_difference,
)
from reports.statistics.proportions import wilson_interval
from reports.statistics.ranks import kendall_tau
from reports.statistics.repeats import mean_pass_at, pass_all_k, pass_at_k, repeat_correlation
from reports.statistics.signflip import sign_flip
from reports.statistics.studentized import cost_per_resolved, difference_of_amounts

__all__ = [
    "Bootstrap",
    "acceptability",
    "benjamini_hochberg",
    "cost_per_resolved",
    "difference_of_amounts",
    "difference_of_means",
    "effective_pairs",
    "efficient_frontier",
    "fieller_interval",
    "holm",
    "instance_leads",
    "instances_needed",
    "is_non_inferior",
    "kendall_tau",
    "mcnemar_exact",
    "mcnemar_mid_p",
    "mcnemar_power",
    "mean_pass_at",
    "net_benefit",
    "newcombe_interval",
    "paired_table",
    "pairs_needed",
    "pass_all_k",
    "pass_at_k",
    "preferred",
    "ratio_of_costs_per_resolved",
    "ratio_of_sums",
    "repeat_correlation",
    "settings_for",
    "sign_flip",
    "smallest_detectable_difference",
    "wilson_interval",
]
