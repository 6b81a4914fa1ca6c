"""What goes to disk and comes from it: predictions, labels, and files that are whole or not there.

In the order they depend on each other: `atomic`, `digest`, `documents`, `parquet_pages`, `formats`, `headings`,
`natural_tables`, `reading`, `writing`.
"""

from sedml.files.atomic import flush, replace_file, replacing
from sedml.files.reading import load_one_teacher, load_predictions
from sedml.files.writing import check_labels_file, save_labels

__all__ = [
    "check_labels_file",
    "flush",
    "load_one_teacher",
    "load_predictions",
    "replace_file",
    "replacing",
    "save_labels",
]
