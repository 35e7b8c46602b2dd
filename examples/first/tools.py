"""A tool of your own: a typed function. Its docstring is what the model reads."""

from chartloop import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b
