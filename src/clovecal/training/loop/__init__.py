"""The training loop: batches, steps, validation, and the checkpoints from which a run is resumed."""

from clovecal.errors import needs

needs("torch", "train", __name__)  # before its modules import it, so that what is said is one sentence
