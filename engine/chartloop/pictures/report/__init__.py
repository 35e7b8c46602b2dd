"""The picture of a run for a report: with the values that its decisions read, laid out for them."""
