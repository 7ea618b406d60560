"""Import on import what every cell needs later, and settle, for processes whose forks share it.

A collection in a fork would copy the memory of all objects that it visits.
"""

import pandas  # noqa: F401 - Arrow looks for it at the first write
from prefect.plugins import load_prefect_collections

from flows.server.api import settle

load_prefect_collections()
settle()
