"""A reader of Mermaid flowcharts that follows Mermaid's own: lexer, grammar, chart of states."""
