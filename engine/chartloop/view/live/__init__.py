"""The picture of a run as it stands: laid out once, then painted anew after each step."""
