"""Recipes: one file for each study, from the task to the result files, readable from top to bottom."""
