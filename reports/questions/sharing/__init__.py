"""Draws that derived arms share."""
