"""The statistics of a report, one small function each, with its reference.

proportions  a share of cells and its interval
paired       two arms over the same cells: table, test of the difference, its interval, margin
sums         the exact distribution behind this test
bootstrap    resampling of instances or repositories, for any function of sums
amounts      cost, tokens and time: ratios, differences of means
studentized  differences of skewed amounts and cost per resolved cell, for few instances
repeats      repeated attempts at an instance: pass@k, parts of the variance, intraclass correlation
fragility    wrong verdicts that a test survives
looks        evidence that is valid at every look
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
from reports.statistics.fragility import (
    Verdicts,
    random_errors_for_another_test,
    wrong_verdicts_for_another_sign,
    wrong_verdicts_for_another_test,
)
from reports.statistics.frontier import efficient_frontier
from reports.statistics.looks import PairedEvidence, paired_e_value
from reports.statistics.netbenefit import acceptability, net_benefit, preferred
from reports.statistics.paired import (
    PairedTest,
    instance_leads,
    is_non_inferior,
    paired_table,
    single_leads,
)
from reports.statistics.power import (
    Design,
    detection_power,
    instances_needed,
    smallest_detectable_difference,
)
from reports.statistics.proportions import wilson_interval
from reports.statistics.ranks import kendall_tau
from reports.statistics.repeats import pass_all_k, pass_at_k, split_variance
from reports.statistics.studentized import cost_per_resolved, difference_of_amounts

__all__ = [
    "Bootstrap",
    "Design",
    "PairedEvidence",
    "PairedTest",
    "Verdicts",
    "acceptability",
    "benjamini_hochberg",
    "cost_per_resolved",
    "detection_power",
    "difference_of_amounts",
    "difference_of_means",
    "efficient_frontier",
    "fieller_interval",
    "holm",
    "instance_leads",
    "instances_needed",
    "is_non_inferior",
    "kendall_tau",
    "net_benefit",
    "paired_e_value",
    "paired_table",
    "pass_all_k",
    "pass_at_k",
    "preferred",
    "random_errors_for_another_test",
    "ratio_of_costs_per_resolved",
    "ratio_of_sums",
    "settings_for",
    "single_leads",
    "smallest_detectable_difference",
    "split_variance",
    "wilson_interval",
    "wrong_verdicts_for_another_sign",
    "wrong_verdicts_for_another_test",
]
