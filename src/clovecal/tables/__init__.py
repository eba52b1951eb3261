"""Prediction tables from files or any data frame, reduced to the statistics that audits and fits need."""

from clovecal.tables._apply import apply_to_file
from clovecal.tables._columns import Columns
from clovecal.tables._files import TableFile, open_table
from clovecal.tables._models import read_models
from clovecal.tables._reduce import PredictionTable, read_predictions

__all__ = ["Columns", "PredictionTable", "TableFile", "apply_to_file", "open_table", "read_models", "read_predictions"]
