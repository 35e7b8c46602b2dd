"""Which box of one chart is which of another, and how the two differ."""
