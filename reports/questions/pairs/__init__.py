"""Every pair of arms."""
