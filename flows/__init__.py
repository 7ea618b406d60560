"""Prefect flows and the command line over them. This is the only package that imports Prefect."""

import sys

# The extra `notebooks` installs it. Prefect would load it in every process, for a grammar of
# addresses that nothing here checks, and take twice the processor time to import.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
