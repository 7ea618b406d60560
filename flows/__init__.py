"""Prefect flows, and the command line over them: the only package that knows Prefect."""
