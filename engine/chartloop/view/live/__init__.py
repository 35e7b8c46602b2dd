"""The picture of a run as it is now: laid out once, then painted anew after each step."""
