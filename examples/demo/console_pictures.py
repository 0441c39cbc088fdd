"""Pictures of the console's pages, by Chromium without a window; none if there is no Chromium."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1280,1000"),
]
PATIENCE_S = 120


def take_pictures(url: str, directory: Path, pages: Iterable[str]) -> list[Path]:
    """Take a picture of the overview and of these pages; returns the files."""
    browser = shutil.which("chromium")
    if browser is None:
        return []
    pictures = []
    for page in ("", *pages):
        picture = directory / f"console{page.replace('/', '-').removeprefix('groups') if page else ''}.png"
        with tempfile.TemporaryDirectory() as profile:
            command = [browser, *FLAGS, f"--user-data-dir={profile}", f"--screenshot={picture}", url + page]
            try:
                subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
            except subprocess.TimeoutExpired:
                continue
        if picture.exists():
            pictures.append(picture)
    return pictures
