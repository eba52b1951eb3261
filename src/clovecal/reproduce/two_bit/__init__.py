"""The Two-Bit environments: the optima of IRMv1 and CLOvE (figure 3a)."""
