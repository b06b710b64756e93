"""Settings of this machine: `.env` in the working directory, then the environment, which wins. Leaves one frozen `Settings`."""

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from perago import human_units
from perago.errors import RuntimeConfigError
from perago.model import LakeAccess
from perago.protocol import decision
from perago.spark import options as spark_options

PLACEHOLDER = "replace-me"

_LAKEFS_FIELDS = {
    "lakectl_server_endpoint_url": "LAKECTL_SERVER_ENDPOINT_URL",
    "lakectl_credentials_access_key_id": "LAKECTL_CREDENTIALS_ACCESS_KEY_ID",
    "lakectl_credentials_secret_access_key": "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
}


@dataclass(frozen=True, slots=True)
class ConductorAccess:
    """Where Conductor is and, where it asks for them, the key and the secret."""

    url: str
    auth_key: str | None = field(default=None, repr=False)
    auth_secret: str | None = field(default=None, repr=False)


def _web_address(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and parts.hostname is not None and parts.port != 0
    except ValueError:
        usable = False
    else:
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not carry a user name or password")
    if not usable:
        raise ValueError("must be an address such as https://host:8080/api")
    return value.rstrip("/")


def _conductor_address(value: str) -> str:
    """Conductor's API lives under `/api`; an address without a path means that one."""
    address = _web_address(value)
    return address if urlsplit(address).path else f"{address}/api"


def _prefix(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]+", value):
        raise ValueError("must be ASCII letters and digits only")
    return value


def _directory(value: Path) -> Path:
    return value.expanduser().absolute()


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be more than 0")
    return value


def _temporary(name: str) -> Path:
    return Path(tempfile.gettempdir()) / "perago" / name


def _seconds(value: object) -> object:
    return human_units.seconds(value) if isinstance(value, str) else value


def _size(value: object) -> object:
    return human_units.size(value) if isinstance(value, str) else value


Duration = Annotated[float, BeforeValidator(_seconds)]
Size = Annotated[int, BeforeValidator(_size), Field(ge=0)]
Directory = Annotated[Path, AfterValidator(_directory)]


class Settings(BaseSettings):
    """Every setting of `perago`; the field names are the variables in lower case."""

    model_config = SettingsConfigDict(frozen=True, hide_input_in_errors=True, extra="forbid", validate_default=True)

    conductor_server_url: Annotated[str, AfterValidator(_conductor_address)] | None = None
    conductor_auth_key: SecretStr | None = None
    conductor_auth_secret: SecretStr | None = None
    lakectl_server_endpoint_url: Annotated[str, AfterValidator(_web_address)] | None = None
    lakectl_credentials_access_key_id: SecretStr | None = None
    lakectl_credentials_secret_access_key: SecretStr | None = None
    perago_workspace_root: Directory = Field(default_factory=lambda: _temporary("workspaces"))
    perago_log_root: Directory = Field(default_factory=lambda: _temporary("logs"))
    perago_cache_root: Directory = Field(default_factory=lambda: _temporary("cache"))
    perago_cache_max_size: Size = 10 * 10**9
    perago_log_file_max_size: Annotated[Size, AfterValidator(_positive)] = 100 * 10**6
    perago_log_retention: Annotated[Duration, AfterValidator(_positive)] = 30 * 86400.0
    perago_worker_id_prefix: Annotated[str, AfterValidator(_prefix)] | None = None
    perago_failure_reason_max_length: int = Field(default=500, ge=1)
    perago_unlabelled_head: decision.UnlabelledHead = decision.UnlabelledHead.REPLACE
    perago_workspace_gc_ttl: Annotated[Duration, AfterValidator(_positive)] = 86400.0
    perago_workspace_gc_interval: Annotated[Duration, AfterValidator(_positive)] = 3600.0
    perago_shutdown_force_kill_after: Duration | None = Field(default=None, ge=0)
    perago_spark_master: str | None = None
    perago_spark_remote: SecretStr | None = None
    perago_spark_conf_file: Directory | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` hands over: the library's own sources let a blank variable hide one in the file."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @model_validator(mode="after")
    def _complete(self) -> "Settings":
        missing = [name for attribute, name in _LAKEFS_FIELDS.items() if getattr(self, attribute) is None]
        if 0 < len(missing) < len(_LAKEFS_FIELDS):
            raise ValueError(f"LakeFS config is incomplete; missing {', '.join(missing)}")
        if (self.conductor_auth_key is None) != (self.conductor_auth_secret is None):
            absent = "CONDUCTOR_AUTH_KEY" if self.conductor_auth_key is None else "CONDUCTOR_AUTH_SECRET"
            raise ValueError(f"Conductor auth config is incomplete; missing {absent}")
        if self.perago_spark_master is not None and self.perago_spark_remote is not None:
            raise ValueError("PERAGO_SPARK_MASTER and PERAGO_SPARK_REMOTE exclude each other; set one of them")
        return self

    @property
    def conductor(self) -> ConductorAccess | None:
        if self.conductor_server_url is None:
            return None
        return ConductorAccess(self.conductor_server_url, _open(self.conductor_auth_key), _open(self.conductor_auth_secret))

    @property
    def lakefs(self) -> LakeAccess | None:
        key, secret = _open(self.lakectl_credentials_access_key_id), _open(self.lakectl_credentials_secret_access_key)
        if self.lakectl_server_endpoint_url is None or key is None or secret is None:
            return None
        return LakeAccess(self.lakectl_server_endpoint_url, key, secret)

    @property
    def spark(self) -> spark_options.Options:
        scratch = self.perago_cache_root / "spark"
        remote = _open(self.perago_spark_remote)
        return spark_options.Options(scratch, self.perago_spark_master, remote, self.perago_spark_conf_file)

    def require_conductor(self, command: str) -> ConductorAccess:
        """`command` as a person types it, such as `perago start`."""
        if self.conductor is None:
            raise RuntimeConfigError(f"CONDUCTOR_SERVER_URL is required for {command}")
        return self.conductor

    def require_lakefs(self) -> LakeAccess:
        if self.lakefs is None:
            raise RuntimeConfigError("LakeFS config is required for workspace tasks")
        return self.lakefs

    def worker_id_prefix(self, module: str) -> str:
        """The prefix that was set, or the module's name without other characters."""
        return self.perago_worker_id_prefix or re.sub(r"[^A-Za-z0-9]", "", module) or "worker"

    def _spark_address(self) -> str:
        """Without the parameters of a Connect address, among which a token may be."""
        remote = _open(self.perago_spark_remote)
        return self.perago_spark_master or spark_options.LOCAL if remote is None else remote.partition(";")[0]

    def resolved(self) -> dict[str, str]:
        """The local settings as a person would write them; no secret and no address is among them."""
        force = self.perago_shutdown_force_kill_after
        return {
            "PERAGO_WORKSPACE_ROOT": str(self.perago_workspace_root),
            "PERAGO_LOG_ROOT": str(self.perago_log_root),
            "PERAGO_CACHE_ROOT": str(self.perago_cache_root),
            "PERAGO_CACHE_MAX_SIZE": human_units.show_size(self.perago_cache_max_size),
            "PERAGO_LOG_FILE_MAX_SIZE": human_units.show_size(self.perago_log_file_max_size),
            "PERAGO_LOG_RETENTION": human_units.show_seconds(self.perago_log_retention),
            "PERAGO_WORKER_ID_PREFIX": self.perago_worker_id_prefix or "(from the module name)",
            "PERAGO_FAILURE_REASON_MAX_LENGTH": str(self.perago_failure_reason_max_length),
            "PERAGO_UNLABELLED_HEAD": self.perago_unlabelled_head.value,
            "PERAGO_WORKSPACE_GC_TTL": human_units.show_seconds(self.perago_workspace_gc_ttl),
            "PERAGO_WORKSPACE_GC_INTERVAL": human_units.show_seconds(self.perago_workspace_gc_interval),
            "PERAGO_SHUTDOWN_FORCE_KILL_AFTER": "(unset)" if force is None else human_units.show_seconds(force),
            "PERAGO_SPARK_MASTER": self._spark_address(),
        }


def load(directory: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read `.env` of `directory` (the working directory) and the environment; `RuntimeConfigError` says what is wrong."""
    values = _gather((directory or Path()) / ".env", os.environ if environ is None else environ)
    for name in Settings.model_fields:
        if values.get(name.upper()) == PLACEHOLDER:
            raise RuntimeConfigError(f"{name.upper()} still has the placeholder value {PLACEHOLDER}; set it or remove it")
    try:
        return Settings.model_validate({name: values[name.upper()] for name in Settings.model_fields if name.upper() in values})
    except ValidationError as error:
        raise RuntimeConfigError(_one_line(error)) from None


def _gather(file: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Later wins, and blank is as good as absent, so a blank variable does not hide one in the file."""
    try:
        written = dotenv_values(file, interpolate=False, encoding="utf-8") if file.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeConfigError(f"{file} cannot be read: {type(error).__name__}") from error
    layers = [{name: value or "" for name, value in written.items()}, dict(environ)]
    return {name: value.strip() for layer in layers for name, value in layer.items() if value.strip()}


def _open(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _one_line(error: ValidationError) -> str:
    """The first fault, naming the variable and never the value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    names = [str(part).upper() for part in first["loc"] if str(part) in Settings.model_fields]
    return f"{names[0]}: {message}" if names else message
