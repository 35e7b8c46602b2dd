"""The tools of three mail agents, which say what they do with data. They reach no network."""

from __future__ import annotations

from chartloop import tool


@tool(effect="pure", data={"reads": "private", "from": "untrusted"})
def read_inbox(sender: str = "") -> str:
    """The newest mails, of one sender or of all.

    Args:
        sender: Whose mails; by default everybody's.
    """
    return f"From {sender or 'ann@example.org'}: When do we meet?"


@tool(effect="pure", data={"from": "untrusted"})
def search_web(query: str) -> str:
    """Search the web.

    Args:
        query: What to look for.
    """
    return f"Three pages about {query}."


@tool(effect="pure", data={"reads": "private"})
def customer_record(address: str) -> str:
    """What is known of a customer.

    Args:
        address: The customer's mail address.
    """
    return f"{address} has paid until June."


@tool(data={"sends": "out"})
def send_mail(to: str, text: str) -> str:
    """Send a mail.

    Args:
        to: The address.
        text: The text.
    """
    return f"sent to {to}: {len(text)} characters"
