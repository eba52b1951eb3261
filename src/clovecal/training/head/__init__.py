"""A scikit-learn estimator on frozen features, trained for calibration in every domain."""
