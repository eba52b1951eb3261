"""Many heads from one description in TOML."""
