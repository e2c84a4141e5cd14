"""Training: parameters of many runs in one buffer, stages, and a loop that can be interrupted."""
