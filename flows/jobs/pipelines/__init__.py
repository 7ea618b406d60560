"""Pipelines: steps that are jobs on one repository, and one result of all of them.

definition  a pipeline as declared, with every check that needs no repository
templates   outputs of earlier steps in the task of a later one
combining   the commit at which a step begins, and the patch of the whole
runs        the rows of a run and of its steps
"""
