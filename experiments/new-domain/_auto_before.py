"""Print what `AutoCalibrator` of whichever clovecal is imported predicts for the rows to judge of a scenario's file."""

import sys

import numpy as np

from clovecal import AutoCalibrator

with np.load(sys.argv[1], allow_pickle=False) as scenario:
    auto = AutoCalibrator().fit(scenario["scores"], scenario["y"], domains=scenario["domains"])
    print("\n".join(map(repr, np.asarray(auto.predict(scenario["test_scores"])).tolist())))
