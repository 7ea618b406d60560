"""Errors of instances, images and grading.

EvalError
├── DatasetError     a dataset, row, selection or instance id is not usable: one line, exit 2
├── PredictionsError a predictions file is not usable: one line, exit code 2
├── ImageError       an image is missing or cannot be built or pulled: infrastructure
└── RepositoryError  a git repository cannot be built, fetched or exported: infrastructure
"""


class EvalError(Exception):
    """Base class of all errors that this package raises on purpose."""


class DatasetError(EvalError):
    """A dataset, row or selection cannot be used. The message says what to change."""


class PredictionsError(EvalError):
    """A predictions file cannot be used. The message says what to change."""


class ImageError(EvalError):
    """An image is missing and cannot be pulled or built. The message gives the remedy."""


class RepositoryError(EvalError):
    """A git repository cannot be built, fetched or exported. The message is one line."""
