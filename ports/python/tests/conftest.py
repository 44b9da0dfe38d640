import pathlib

import numpy as np
import pytest

import tinyllm

MODELS = pathlib.Path(__file__).resolve().parents[3] / "examples" / "models"


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(params=tinyllm.targets())
def target(request):
    return request.param


@pytest.fixture
def story():
    """the story model of the repository; a source distribution has no models"""
    path = MODELS / "story-gla.gguf"
    if not path.is_file():
        pytest.skip("examples/models/story-gla.gguf is not here")
    return path


@pytest.fixture
def model(story):
    with tinyllm.Model(story) as m:
        yield m
