"""What if: recorded runs, decided again under other limits or by another file."""
