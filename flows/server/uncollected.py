"""Disable garbage collection on import, until `settled`: modules are never freed."""

import gc

gc.disable()
