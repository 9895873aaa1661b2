"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# Time limits of single examples say more about the machine than about the code.
settings.register_profile("everyday", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("everyday")
