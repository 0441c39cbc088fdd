"""A realm of Kerberos with a KDC of its own, MIT's `krb5kdc`, on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ottla.model.closing import Closing
from tools.guarded_server import GuardedServer, free_address
from tools.peer_cache import gssapi_packages, program

REALM = "OTTLA.TEST"
SYSTEM_PROGRAMS = ("/usr/sbin", "/sbin", "/usr/local/sbin")
"""Where the KDC's programs are, which the path of a user does not name."""


class KerberosRealm(Closing):
    """A realm with a running KDC. Raises Unavailable where its programs are missing."""

    def __init__(self, work: Path) -> None:
        self._work = work
        address = free_address()
        port = address.rpartition(":")[2]
        self.settings = work / "krb5.conf"
        self.settings.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = {address}\n }}\n"
        )
        (work / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {work}/principal\n"
            f"  key_stash_file = {work}/stash\n  supported_enctypes = aes256-cts:normal\n }}\n"
        )
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_PROGRAMS]),
            "KRB5_CONFIG": str(self.settings),
            "KRB5_KDC_PROFILE": str(work / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{work}/tickets",
        }
        center, self._admin = self._program("krb5kdc"), self._program("kadmin.local")
        self._run(self._program("kdb5_util"), "create", "-s", "-r", REALM, "-P", "of the database")
        self._center = GuardedServer([center, "-n"], address, work / "krb5kdc.log", self.environment)

    def keytab(self, principal: str) -> Path:
        """Add a principal of the realm, and return the file with its keys."""
        path = self._work / f"{principal.replace('/', '-')}.keytab"
        self._run(self._admin, "-q", f"addprinc -randkey {principal}")
        self._run(self._admin, "-q", f"ktadd -norandkey -k {path} {principal}")
        return path

    def change_keys(self, principal: str) -> None:
        """Give a principal other keys than its keytab has."""
        self._run(self._admin, "-q", f"cpw -randkey {principal}")

    def get_ticket(self, principal: str) -> None:
        """Log in, as a user does with `kinit`."""
        self._run(self._program("kinit"), "-k", "-t", str(self.keytab(principal)), principal)

    def drop_tickets(self) -> None:
        """Log out."""
        (self._work / "tickets").unlink(missing_ok=True)

    def client_environment(self) -> dict[str, str]:
        """The environment of a Python process that logs in. Raises Unavailable without the package gssapi."""
        paths = [str(gssapi_packages()), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**self.environment, "PYTHONPATH": os.pathsep.join(paths)}

    def close(self) -> None:
        """Stop the KDC."""
        self._center.close()

    def _program(self, name: str) -> str:
        return program(name, self.environment["PATH"])

    def _run(self, *command: str) -> None:
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=60)
