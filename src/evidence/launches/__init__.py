"""Launches of several processes: refused before they start, or trained as on the CPU."""
