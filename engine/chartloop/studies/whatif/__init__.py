"""What-if studies: recorded runs decided again under other limits or by another file."""
