"""Campaigns that last too long for a test: each runs as a command, is small in the tests, and writes down what it found."""
