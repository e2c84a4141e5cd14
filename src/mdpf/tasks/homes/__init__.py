"""Localisation in apartments never seen before, from images and a floor plan."""
