"""Tables of predictions and features: files or any data frame in, whole files out, for every command and package.

`formats` opens files and streams their rows, `roles` finds which column is what, `columns` makes arrays of them,
`predictions`, `unlabelled` (scores alone), `features` and `models` read what the commands work on, and `writing` writes
predictions.
"""

from clovecal.tables._apply import apply_to_file
from clovecal.tables.columns import Columns, read_columns
from clovecal.tables.features import FeatureRows, read_features
from clovecal.tables.formats import TableFile, open_table
from clovecal.tables.models import check_same_rows, read_models
from clovecal.tables.predictions import PredictionTable, read_predictions
from clovecal.tables.roles import Roles, find_roles
from clovecal.tables.unlabelled import read_scores
from clovecal.tables.writing import table_writer, write_table

__all__ = [
    "Columns",
    "FeatureRows",
    "PredictionTable",
    "Roles",
    "TableFile",
    "apply_to_file",
    "check_same_rows",
    "find_roles",
    "open_table",
    "read_columns",
    "read_features",
    "read_models",
    "read_predictions",
    "read_scores",
    "table_writer",
    "write_table",
]
