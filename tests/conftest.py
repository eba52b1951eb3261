"""One thread for each test process: two of them share two cores, and a sum must not depend on the number of threads."""

import os
import re

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def refusal():
    """Return a function that makes a call which must be refused, and returns the one sentence it is refused with."""
    from clovecal import InputError  # after the threads are settled

    def of(call, *arguments, **options):
        with pytest.raises(InputError) as caught:
            call(*arguments, **options)
        message = str(caught.value)
        assert "\n" not in message
        assert not re.search(r"[a-z)]\. [A-Z]", message)
        return message

    return of
