"""Harnesses by model."""
