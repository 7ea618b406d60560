"""Faults as demonstrations: `durabench demo --fault NAME`.

faults     the three faults and what makes them
model_api  a local model API whose failures are set
worker     the process that works on the attempt
keeping    starts a worker again after it failed, with a growing wait
checking   the four checks of each fault
"""
