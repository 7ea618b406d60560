"""Every instance."""
