"""Notifiers: messages to people that a run needs them."""
