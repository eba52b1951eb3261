"""The training loop: batches, steps, validation, and the checkpoints from which a run is resumed."""
