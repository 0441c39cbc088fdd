"""The files of `wire/api` are the only list of APIs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.model.errors import RemoteProtocolError
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.registry import api, apis, declared, modules


def test_every_module_declares_one_api_named_like_it() -> None:
    for module in modules():
        (only,) = declared(module)
        assert only.name.lower() == module.__name__.rpartition(".")[2].replace("_", "")


def test_keys_are_unique_and_sorted() -> None:
    keys = [found.key for module in modules() for found in declared(module)]
    assert sorted(keys) == list(apis())
    assert len(set(keys)) == len(keys)


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
