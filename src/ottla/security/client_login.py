"""What a client needs to log in, as settings of Java, librdkafka, Python and Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.model.errors import ConfigError

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """One user at one listener. `certificate` is the file with the user's key and certificate."""

    bootstrap: str
    protocol: str
    mechanism: str
    user: str
    password: str = field(repr=False)
    authority: Path
    certificate: Path

    def settings(self, form: str = "python") -> dict[str, str]:
        """Return the settings for "python" (ottla), "librdkafka", "java" or "spark". Raises ConfigError."""
        if form in ("python", "librdkafka"):
            return self._by_files()
        if form == "java":
            return self._by_stores()
        if form == "spark":
            return {f"kafka.{name}": value for name, value in self._by_stores().items()}
        raise ConfigError(f"settings for {form!r}: there are those for python, librdkafka, java and spark")

    @property
    def _where(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}

    def _by_files(self) -> dict[str, str]:
        settings = self._where
        if "SSL" in self.protocol:
            settings["ssl.ca.location"] = str(self.authority)
        if self.protocol == "SSL":
            settings |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(self.certificate))
        if "SASL" in self.protocol:
            settings |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        return settings

    def _by_stores(self) -> dict[str, str]:
        settings = self._where
        if "SSL" in self.protocol:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if self.protocol == "SSL":
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.certificate)}
        if "SASL" in self.protocol:
            login = f'username="{_escaped(self.user)}" password="{_escaped(self.password)}"'
            settings["sasl.mechanism"] = self.mechanism
            settings["sasl.jaas.config"] = f"{_MODULES[self.mechanism]} required {login};"
        return settings


def properties_text(settings: Mapping[str, str]) -> str:
    """Return settings as a properties file of Java; librdkafka's programs read it too."""
    return "".join(f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items())


def spark_text(settings: Mapping[str, str]) -> str:
    """Return settings as options of a Spark reader or writer."""
    return "".join(f".option({name!r}, {value!r})\n" for name, value in settings.items())


def plain_users_text(users: Mapping[str, str]) -> str:
    """Return the JAAS text that gives a broker its users of PLAIN."""
    listed = " ".join(f'user_{name}="{_escaped(password)}"' for name, password in users.items())
    return f"{_MODULES['PLAIN']} required {listed};"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
