"""Texts with facts in them: templates of prompts, messages and instructions.

    text ──check──▶ what may be in it ──template──▶ something that renders
                       └──filters──▶ what may be done to a value

`template` is the only door to Jinja2; labels of boxes and arrows are `language.label`.
Source: design "architecture", section 5
"""
