"""Whole networks on images and texts: how they are made, trained, kept and used."""
