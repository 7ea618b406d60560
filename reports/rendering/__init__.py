"""Rendering of reports as pages, Markdown, figures and sentences."""
