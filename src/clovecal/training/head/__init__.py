"""A scikit-learn estimator on frozen features, trained for calibration in every domain."""

from clovecal.errors import needs

needs("torch", "train", __name__)  # before its modules import it, so that what is said is one sentence
