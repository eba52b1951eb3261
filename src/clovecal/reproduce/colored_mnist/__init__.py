"""Colored MNIST: hundreds of models a setting, and the choice among them (section 6.1)."""
