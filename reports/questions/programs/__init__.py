"""The programs of command arms."""
