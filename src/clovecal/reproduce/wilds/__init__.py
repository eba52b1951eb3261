"""WILDS: train networks, calibrate them in the domains seen, and judge them in the others (section 6.2)."""
