"""Print what MCGrad predicts for the rows to judge of a file of known domains, the domain being its only category."""

import sys

import numpy as np
import pandas as pd
from mcgrad.methods import MCGrad

with np.load(sys.argv[1], allow_pickle=False) as known:
    calibration = pd.DataFrame({"p": known["scores"], "y": known["y"], "domain": known["domains"]})
    test = pd.DataFrame({"p": known["test_scores"], "domain": known["test_domains"]})
fitted = MCGrad().fit(calibration, "p", "y", categorical_feature_column_names=["domain"])
p = fitted.predict(test, "p", categorical_feature_column_names=["domain"])
print("\n".join(map(repr, np.asarray(p, dtype=np.float64).tolist())))
