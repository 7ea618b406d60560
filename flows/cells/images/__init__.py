"""Images of instances.

schedule   pulls and builds images ahead of their cells
preflight  checks that images can be trusted
"""
