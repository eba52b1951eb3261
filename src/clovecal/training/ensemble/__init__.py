"""Hundreds of small models trained at once, as one stack of matrices."""
