"""A GGUF file's model in this process: how the library is asked for it. A real one: test_language."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from gemlab.emulator.minds import runtimes


class Loaded:
    """Stands for the library: takes the settings that a server is made with."""

    def __init__(self, fails=None):
        self.made, self.fails = [], fails
        self.module = types.ModuleType("xllamacpp")
        self.module.CommonParams = lambda: types.SimpleNamespace(
            model=types.SimpleNamespace(), cpuparams=types.SimpleNamespace(), cpuparams_batch=types.SimpleNamespace()
        )
        self.module.Server = self._server

    def _server(self, settings):
        if self.fails:
            raise RuntimeError(self.fails)
        self.made.append(settings)
        return types.SimpleNamespace(listening_address="http://127.0.0.1:4321")


def test_a_file_s_server_is_private_and_has_a_context_for_each_slot(monkeypatch):
    loaded = Loaded()
    monkeypatch.setitem(sys.modules, "xllamacpp", loaded.module)
    monkeypatch.setenv("OMP_WAIT_POLICY", "to be restored")
    monkeypatch.delenv("OMP_WAIT_POLICY")
    first, _ = (runtimes.gguf(Path("/models/a b.gguf"), slots=3) for _ in range(2))
    assert (first.url, first.model) == ("http://127.0.0.1:4321/v1", "a b.gguf")
    one, other = loaded.made
    assert (one.model.path, one.n_parallel, one.n_ctx) == ("/models/a b.gguf", 3, 3 * 4096)
    assert one.hostnames == ["127.0.0.1"] and one.ui is False
    assert len(one.api_keys) == 1 and len(one.api_keys[0]) >= 32 and one.api_keys != other.api_keys
    assert runtimes._headers(first._key) == {"authorization": f"Bearer {one.api_keys[0]}"}
    assert one.cache_ram_mib == 1024, "without it the library takes 8 GiB in the course of a run"
    assert one.cpuparams.n_threads == one.cpuparams_batch.n_threads == runtimes._cores() > 0
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE", "threads that spin would take the processors from the rest"


def test_the_user_s_own_wait_policy_stays(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", Loaded().module)
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    runtimes.gguf(Path("a.gguf"))
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


def test_a_file_that_cannot_be_loaded_is_one_line(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setitem(sys.modules, "xllamacpp", Loaded("Failed to init server").module)
    with pytest.raises(ValueError, match=r"^a\.gguf cannot be loaded: Failed to init server$"):
        runtimes.gguf(Path("/models/a.gguf"))


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ValueError, match=r'needs xllamacpp: install "gemlab\[gguf\]"'):
        runtimes.gguf(Path("/models/a.gguf"))
