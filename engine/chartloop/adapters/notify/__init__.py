"""Notifiers: how people hear that a run needs them."""
