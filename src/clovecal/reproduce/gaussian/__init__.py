"""Linear-Gaussian domains: how many are enough (section 3)."""
