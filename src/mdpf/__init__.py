"""Learned particle filters whose posterior is a mixture density."""
