"""Localisation in three mazes from what a camera sees: geometry, scenes, walks, the task, and the published recordings."""
