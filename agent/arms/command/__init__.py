"""Any program that speaks to a model API, as an arm.

arm       runs the program in a workspace, with a gateway as its model
recipe    how a program is installed and run: YAML, shipped in agent/recipes or by path
installed the volume that holds its files, and the script that runs it
"""

SCOPE = "agent"
"""The scope of a program's model calls."""
