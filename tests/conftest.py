"""One thread for each test process: two of them share two cores, and a sum must not depend on the number of threads."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
