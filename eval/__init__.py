"""Evaluation: SWE-bench rows, their images, predictions and verdicts.

Import names from the modules (`from eval.instances import load`). A bare `import eval`
would rebind the builtin.
"""
