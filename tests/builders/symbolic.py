"""What looks as if it were iterable, and is not."""


class Symbolic:
    """As tensors of PyTensor and other libraries."""

    def __init__(self, error=TypeError):
        self.error = error

    def __iter__(self):
        raise self.error("does not support iteration, or is of a length that nobody knows")
