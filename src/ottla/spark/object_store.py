"""A prefix of an object store as a location, through obstore: S3, Google Cloud Storage, Azure.

Credentials come as each store's own tools take them: from the environment, and for S3 from a profile.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from ottla.model.errors import ConfigError, StorageError
from ottla.spark.locations import S3, Stored, StoreEntry, scheme_of, temporary_file

_NEVER_MS = "4102444800000"
_SENT = re.compile(r"<Code>([^<]+)</Code>.*?<Message>([^<]+)</Message>")
"""The answer of S3 and of Azure to a request that they refuse."""
_S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class ObjectStore:
    """A prefix of an object store."""

    is_directory = False

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore import exceptions
            from obstore.store import from_url
        except ImportError as error:
            raise ConfigError(f"{url} needs obstore: pip install 'ottla[stores]'") from error
        self.url = url.rstrip("/")
        self._obstore: Any = obstore
        self._errors: Any = exceptions
        with self._as_storage_errors():
            self._store: Any = from_url(self.url, **_client_settings(self.url))

    @contextmanager
    def _as_storage_errors(self) -> Iterator[None]:
        """Raise failures of the store as StorageError, in one line."""
        try:
            yield
        except (self._errors.BaseError, ValueError, OSError) as error:
            raise StorageError(f"{self.url}: {refusal(str(error))}") from error

    def list(self, under: str = "") -> list[StoreEntry]:
        """All files below a directory, by path."""
        with self._as_storage_errors():
            entries = [entry for chunk in self._obstore.list(self._store, under or None) for entry in chunk]
        return sorted(
            StoreEntry(entry["path"], entry["size"], entry["last_modified"].timestamp()) for entry in entries
        )

    def read(self, path: str) -> Stored | None:
        """A file; None if there is none."""
        with self._as_storage_errors():
            try:
                response = self._obstore.get(self._store, path)
                content = bytes(response.bytes())
            except (self._errors.NotFoundError, FileNotFoundError):
                return None
        version = {name: response.meta.get(name) for name in ("e_tag", "version")}
        return Stored(content, {name: value for name, value in version.items() if value is not None})

    def scratch(self, path: str) -> Path:  # noqa: ARG002 - of a directory it is beside the path
        """A temporary file."""
        return temporary_file()

    def put(self, path: str, content: bytes | Path) -> None:
        """Write a file, whole or not at all, in place of what is there."""
        self._put(path, content, "overwrite")

    def create(self, path: str, content: bytes | Path) -> bool:
        """As `put`, but only if there is no such file; else False."""
        return self._put(path, content, "create")

    def replace(self, path: str, content: bytes, version: Any) -> bool:
        """Replace a file if it still has this version (None: if there is none); else False."""
        return self._put(path, content, "create" if version is None else version)

    def _put(self, path: str, content: bytes | Path, mode: Any) -> bool:
        # Uploads in parts have no condition; one put has room for 5 GB.
        whole = content.read_bytes() if isinstance(content, Path) else content
        with self._as_storage_errors():
            try:
                self._obstore.put(self._store, path, whole, mode=mode, use_multipart=False)
            except (self._errors.AlreadyExistsError, self._errors.PreconditionError, FileExistsError):
                return False
            except (self._errors.NotFoundError, FileNotFoundError):
                if isinstance(mode, str):
                    raise
                return False  # the file to replace is gone
            finally:
                if isinstance(content, Path):
                    content.unlink(missing_ok=True)
        return True

    def move(self, source: str, target: str) -> None:
        """Copy a file inside the store and remove the source; nothing happens if there is no source."""
        with self._as_storage_errors():
            try:
                self._obstore.copy(self._store, source, target)
            except (self._errors.NotFoundError, FileNotFoundError):
                return
        self.delete([source])

    def delete(self, paths: Sequence[str]) -> None:
        """Remove files; missing ones are no error."""
        with self._as_storage_errors():
            for path in paths:
                with suppress(self._errors.NotFoundError, FileNotFoundError):
                    self._obstore.delete(self._store, path)

    def lock(self) -> AbstractContextManager[None]:
        """Do nothing: `replace` decides."""
        return nullcontext()


def refusal(text: str) -> str:
    """What a store says, in one line, out of the text of an error: its own words if it sent any."""
    text = re.sub(r"\s+", " ", text.partition("\n\nDebug source")[0])
    sent = _SENT.search(text)
    return f"{sent[2]} ({sent[1]})" if sent else text[:500]


def _client_settings(url: str) -> dict[str, Any]:
    """Return the settings that obstore does not take from the environment by itself."""
    settings: dict[str, Any] = {}
    if emulator := _gcs_emulator(url):
        settings["config"] = {"service_account_key": _emulated_account(emulator)}
        settings["client_options"] = {"allow_http": True}
    endpoint = _s3_endpoint(url)
    if endpoint:
        settings["config"] = {"endpoint": endpoint}
        settings["client_options"] = {"allow_http": endpoint.startswith("http:")}
    if _has_profile(url):
        settings["credential_provider"] = _of_profile(url)
    return settings


def _has_profile(url: str) -> bool:
    """Whether the keys for S3 are those of a profile."""
    is_chosen = os.environ.get("AWS_PROFILE") and not os.environ.get("AWS_ACCESS_KEY_ID")
    return scheme_of(url) in S3 and bool(is_chosen)


def _of_profile(url: str) -> Any:
    """Amazon's library, for keys of AWS_PROFILE that are renewed. Raises ConfigError."""
    try:
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise ConfigError(f"{url}: AWS_PROFILE needs boto3: pip install boto3") from error
    try:
        return Boto3CredentialProvider()
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"{url}: AWS_PROFILE={os.environ['AWS_PROFILE']}: {error}") from error


def delta_settings(url: str) -> dict[str, str] | None:
    """Return the same settings for delta-rs. Keys of a profile may be used for a while only."""
    if emulator := _gcs_emulator(url):
        return {"google_service_account_key": _emulated_account(emulator), "allow_http": "true"}
    settings = {"allow_http": "true"} if _s3_endpoint(url).startswith("http:") else {}
    if _has_profile(url):
        provider = _of_profile(url)
        settings |= {f"aws_{name}": value for name, value in provider.config.items()}
        keys = provider()
        settings |= {f"aws_{name}": keys[name] for name in ("access_key_id", "secret_access_key")}
        if keys["token"]:
            settings["aws_session_token"] = keys["token"]
    return settings or None


def iceberg_settings(url: str) -> dict[str, str]:
    """Return the same settings for pyiceberg, which reads through pyarrow."""
    if emulator := _gcs_emulator(url):
        return {
            "gcs.service.host": emulator,
            "gcs.oauth2.token": "none",
            "gcs.oauth2.token-expires-at": _NEVER_MS,
        }
    endpoint = _s3_endpoint(url)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    settings = {"s3.endpoint": endpoint, "s3.region": region}
    return {name: value for name, value in settings.items() if value} if endpoint else {}


def _gcs_emulator(url: str) -> str:
    """The emulator of Google Cloud Storage that the environment names, as for Google's own clients."""
    return os.environ.get("STORAGE_EMULATOR_HOST", "") if scheme_of(url) == "gs" else ""


def _emulated_account(emulator: str) -> str:
    """Return an account that needs no log-in, as Rust's stores take it."""
    nobody = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    return json.dumps({"gcs_base_url": emulator, "disable_oauth": True, **nobody})


def _s3_endpoint(url: str) -> str:
    """Return the server that the environment names for S3; "" for Amazon's, and for other stores."""
    if scheme_of(url) not in S3:
        return ""
    return next((os.environ[name] for name in _S3_ENDPOINTS if os.environ.get(name)), "")
