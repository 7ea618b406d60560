"""Prefect flows and the command line over them. This is the only package that imports Prefect."""
