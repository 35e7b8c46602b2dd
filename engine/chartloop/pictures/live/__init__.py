"""The live picture of a run: laid out once, then repainted after each step."""
