"""Images of instances.

schedule   pull and build images ahead of their cells
cache      which images are kept
preflight  which images can be trusted
commands   the output of `durabench images`
"""
