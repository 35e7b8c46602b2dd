"""Machines and what others write: flowcharts of documents, other tools' files."""
