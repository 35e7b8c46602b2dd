"""Charts as Mermaid text, and back."""
