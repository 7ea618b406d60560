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
netbenefit   value of the resolved instances less the cost, and the arm with the most of it
fieller      limits of a ratio of two means
power        the differences that a planned experiment can detect

These functions depend on neither lake nor marts: they take and return numbers.
"""
