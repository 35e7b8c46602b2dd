"""Models: real ones through litellm, and one that replies from a script."""
