"""What relplot says of some tables, for test_smooth_ece_against_relplot.py.

python tests/oracles/relplot_values.py > tests/oracles/relplot.json (with relplot installed, which brings seaborn)
"""

import json
from importlib.metadata import version

import numpy as np


def tables():
    """Yield tables of different sizes and errors."""
    for seed, (n, bend) in enumerate([(50, 0.0), (200, 0.2), (500, 0.05), (1000, 0.3), (1000, 0.0), (80, -0.3)]):
        rng = np.random.default_rng(seed)
        p = rng.beta(*rng.uniform(0.4, 3, 2), size=n).round(4)
        yield (rng.random(n) < np.clip(p + bend * np.sin(6 * p), 0, 1)).astype(int), p


def main():
    """Print them."""
    import relplot  # seldom installed: the tests read what is recorded

    cases = [{"y": y.tolist(), "p": p.tolist(), "smece": float(relplot.smECE(p, y))} for y, p in tables()]
    print(json.dumps({"versions": {"relplot": version("relplot"), "numpy": version("numpy")}, "cases": cases}))


if __name__ == "__main__":
    main()
