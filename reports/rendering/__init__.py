"""Pages, Markdown, figures and sentences."""
