"""Speed and memory, measured: what ``mdpf bench`` runs. Nothing here is needed to use the library."""
