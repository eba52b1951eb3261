"""One training run: batches, steps, looks at held-out rows, and what is left on disk to go on from."""
