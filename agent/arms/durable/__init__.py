"""The durable arm, which must be worth its extra cost.

arm.py             contract, repository, test runner and approvals around the preset's flow

lean.py            the flow of the lean preset, one conversation until the gates open
gates.py           the gates, opened by tests on a fresh copy

full.py            the flow of the full preset: plan, steps, the patch on a fresh copy
reproduction.py    the task as a failing test, verified by running it
implementation.py  one step by as many candidates as confidence requires, and its context

review.py          reviews, rulings and other approaches
verification.py    the change to submit, and test runs compared with the base commit
outcome.py         the attempt's outcome, and the evidence for it
answers.py         typed answers of the roles
options.py         what an experiment may set: presets, models by role, and settings
roles.py           tools by role
state.py           the attempt's knowledge, as facts

The prompts are the .md files.
"""
