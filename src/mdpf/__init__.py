"""Learned particle filters whose posterior is a mixture density."""

__version__ = "0.1.0"
