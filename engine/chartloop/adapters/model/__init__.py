"""Models: real ones through litellm, and one that answers from a script."""
