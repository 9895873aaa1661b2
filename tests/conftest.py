"""What holds for all tests."""

import pytest
from hypothesis import HealthCheck, settings

# Stories and stages assert, too: say what was compared there as well.
pytest.register_assert_rewrite("tests.e2e")

# Time limits of single examples say more about the machine than about the code.
settings.register_profile("everyday", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("everyday")
