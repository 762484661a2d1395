"""Optuna's own tests of samplers."""

import pytest

pytest.importorskip("optuna", minversion="5", reason="Optuna 5 has the tests of samplers")
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

from paoswarm.optuna import PAOSampler


class TestContract(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return PAOSampler
