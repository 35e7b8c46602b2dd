"""Who follows runs: one real component a file."""
