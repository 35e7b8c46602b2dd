"""YAML 1.2 with a place for every node, and in plain words why a text is none.

    text ──reading──▶ document: data, and where each part of it stands
             ├──scalar──▶ what a plain word means, and where its characters are
             └──fault───▶ what is wrong, for someone who writes machines

`reading` is the only door to PyYAML. Source: design "language", sections 2 and 9
"""
