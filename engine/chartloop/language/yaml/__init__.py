"""YAML 1.2 with a place for every node, and clear errors for invalid text.

    text ──reading──▶ document: the data, and the place of each part
             ├──scalar──▶ the value of a plain word, and the offsets of its characters
             └──fault───▶ the cause of a syntax error, for authors of machines

Only `reading` imports PyYAML. Source: `docs/language.md`, "States"; `docs/checks.md`
"""
