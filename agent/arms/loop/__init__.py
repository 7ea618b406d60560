"""A tool-calling agent whose capabilities are switched on one by one."""
