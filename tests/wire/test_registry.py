"""The table of APIs is that of the files of `wire/api`."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

import ottla.wire.api
from ottla.model.errors import RemoteProtocolError
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.registry import MODULES, api, apis, declared


def test_the_table_names_every_module_in_the_order_of_its_keys() -> None:
    files = {info.name for info in pkgutil.iter_modules(ottla.wire.api.__path__)}
    assert sorted(MODULES.values()) == sorted(files)
    assert list(MODULES) == sorted(MODULES)


def test_every_module_declares_one_api_of_its_key_and_name() -> None:
    for key, name in MODULES.items():
        (only,) = declared(import_module(f"ottla.wire.api.{name}"))
        assert (only.key, only.name.lower()) == (key, name.replace("_", ""))
        assert only is apis()[key]


def test_an_api_is_found_by_key_and_carried_by_its_types() -> None:
    assert api(1) is FetchRequest.API is FetchResponse.API
    assert (api(1).name, api(1).version_newest, api(1).flexible_since) == ("Fetch", 18, 12)
    assert (api(1).request, api(1).response) == (FetchRequest, FetchResponse)


def test_an_unknown_key_is_the_peers_mistake() -> None:
    with pytest.raises(RemoteProtocolError, match="unknown API key 4321"):
        api(4321)


def test_a_client_loads_only_what_it_names() -> None:
    imports = "import sys, ottla.wire.api.heartbeat, ottla.wire.registry"
    script = f"{imports}; print('ottla.wire.api.fetch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
