"""A small deployment, made once; a test that changes a kit gets a copy of it."""

import shutil

import pytest

from sedml.service.kits import provision


@pytest.fixture(scope="session")
def provisioned(tmp_path_factory):
    out = tmp_path_factory.mktemp("deployment") / "kits"
    provision(out, ("s0.example:8440", "10.0.0.7:8441"), None, 2, 1)
    return out


@pytest.fixture
def kits(provisioned, tmp_path):
    return shutil.copytree(provisioned, tmp_path / "kits")
