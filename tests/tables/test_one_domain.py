"""Tables of one domain, which need not say which, and tables without labels."""

import numpy as np
import polars as pl
import pytest

from clovecal import InputError
from clovecal.tables import open_table, read_predictions, read_scores

ROWS = {"died": [0, 1, 1], "risk": [0.2, 0.7, 0.4]}


def written(tmp_path, rows, name="new.csv"):
    pl.DataFrame(rows).write_csv(tmp_path / name)
    return tmp_path / name


@pytest.mark.parametrize("as_file", [True, False])
def test_a_table_without_a_column_of_domains_is_one_domain_where_that_is_said(tmp_path, as_file):
    source = written(tmp_path, ROWS) if as_file else pl.DataFrame(ROWS)
    table = read_predictions(source, one_domain="Oslo")
    assert table.domains.counts == {"Oslo": 3}
    np.testing.assert_array_equal(table.y, ROWS["died"])
    with pytest.raises(InputError, match="domain"):
        read_predictions(source)


@pytest.mark.parametrize("as_file", [True, False])
def test_a_column_of_domains_is_used_where_there_is_one(tmp_path, as_file):
    rows = {**ROWS, "hospital": ["A", "B", "A"]}
    source = written(tmp_path, rows) if as_file else pl.DataFrame(rows)
    assert read_predictions(source, one_domain="Oslo").domains.counts == {"A": 2, "B": 1}


def test_a_large_table_of_one_domain_is_counted_while_it_is_read(tmp_path):
    rng = np.random.default_rng(0)
    rows = {"y": rng.integers(0, 2, 3000), "p": rng.uniform(size=3000)}
    table = read_predictions(written(tmp_path, rows), one_domain="Oslo", max_rows=500)
    assert table.reduced == "score cells"
    assert table.domains.names == ("Oslo",)
    assert table.sample_weight.sum() == 3000
    assert table.sample_weight @ table.y == rows["y"].sum()


def test_scores_are_read_from_a_table_without_labels(tmp_path):
    scores, roles = read_scores(open_table(written(tmp_path, {"id": [7, 8, 9], "risk": ROWS["risk"]})))
    np.testing.assert_array_equal(scores, np.array(ROWS["risk"])[:, None])
    assert str(roles) == "score 'risk' (guessed)"


def test_scores_of_the_fit_are_taken_where_the_table_has_them(tmp_path):
    path = written(tmp_path, {"risk": ROWS["risk"], "z": [-1, 2, 3]})
    scores, roles = read_scores(open_table(path), fitted_scores=("z",))
    np.testing.assert_array_equal(scores[:, 0], [-1, 2, 3])
    assert not roles.to_be_said


def test_a_table_of_scores_without_rows_is_refused(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("risk\n")
    with pytest.raises(InputError, match="no rows"):
        read_scores(open_table(path))
