"""Reads Mermaid flowcharts as Mermaid itself reads them: lexer, grammar, then a chart of states."""
