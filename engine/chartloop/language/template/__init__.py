"""Templates of prompts, messages and instructions, with facts in them.

    text ──template_check──▶ checked tree ──template──▶ rendered text
                                └──filters──▶ functions on values

Only `template` imports Jinja2; labels of boxes and edges are in `language.label`.
"""
