"""Figures, tables and pages made from saved results; nothing here runs a model."""
