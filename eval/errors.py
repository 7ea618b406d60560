"""What can go wrong around instances, images and grading.

EvalError
├── DatasetError     a dataset, row, selection or instance id is not usable: one line, exit 2
├── PredictionsError a predictions file is not usable: one line, exit code 2
└── ImageError       an image is missing or cannot be built or pulled: infrastructure
"""


class EvalError(Exception):
    """Base of everything this package raises on purpose."""


class DatasetError(EvalError):
    """A dataset, row or selection cannot be used; the message says what to change."""


class PredictionsError(EvalError):
    """A predictions file cannot be used; the message says what to change."""


class ImageError(EvalError):
    """An image is not here and cannot be had; the message says what would bring it."""
