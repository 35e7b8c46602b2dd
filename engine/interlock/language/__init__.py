"""From text to spec: what a machine file says, or everything that is wrong with it."""
