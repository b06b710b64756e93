"""Every setting of Perago, read from `.env` in the working directory and from the environment, which takes precedence.

Two settings name caches: `PERAGO_CACHE_ROOT` is the worker's content cache (objects of workspaces, limited by
`PERAGO_CACHE_MAX_SIZE`), `PERAGO_CACHE_DIR` keeps what Perago downloads for itself (development servers, Java, Spark's jars).
"""

import contextlib
import difflib
import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator

from perago import human_units
from perago.errors import RuntimeConfigError
from perago.model import LakeAccess

PLACEHOLDER = "replace-me"
DEFAULT_SPARK_MASTER = "local[*]"
ENV_FILE = Path(".env")

_CONDUCTOR = "CONDUCTOR_SERVER_URL"
_LAKEFS = ("LAKECTL_SERVER_ENDPOINT_URL", "LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY")
_OTHER_VARIABLES = {
    "PERAGO_JOBS": "deploy/perago-worker@.service",
    "PERAGO_METRICS_PORT": "deploy/perago-worker@.service",
    "PERAGO_MODULES": "deploy/perago-worker@.service",
    "PERAGO_PARAMS": "the process of a command task",
    "PERAGO_RESULT": "the process of a command task",
    "PERAGO_TASK_DIR": "the process of a command task",
    "PERAGO_TEST_STACK": "the servers that the project's tests use",
}
"""Variables that are not settings but have a meaning, and where it is defined."""
_KUBERNETES_SERVICE = re.compile(r"PERAGO\w*_(SERVICE_HOST|(SERVICE_)?PORT\w*)")
"""What Kubernetes sets in every pod for a Service whose name begins with `perago`."""


@dataclass(frozen=True, slots=True)
class ConductorAccess:
    """Conductor's address and, if it requires a login, the key and the secret."""

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
            raise ValueError("must not contain a user name or password")
    if not usable:
        raise ValueError("must be an address such as https://host:8080/api")
    return value.rstrip("/")


def _conductor_address(value: str) -> str:
    """Conductor's API is under `/api`, so an address without a path means that one."""
    address = _web_address(value)
    return address if urlsplit(address).path else f"{address}/api"


def _worker_id_prefix(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]+", value):
        raise ValueError("must be ASCII letters and digits only")
    return value


def _one_line(value: str) -> str:
    if not value.isprintable() or len(value) > 200:  # noqa: PLR2004  said in the next line
        raise ValueError("must be one line of at most 200 characters")
    return value


def _absolute(value: Path) -> Path:
    return value.expanduser().absolute()


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be more than 0")
    return value


def _seconds(value: object) -> object:
    return human_units.seconds(value) if isinstance(value, str) else value


def _size(value: object) -> object:
    return human_units.size(value) if isinstance(value, str) else value


def user_directory() -> Path:
    """Of this user, in the temporary directory. It may not exist, or not be this user's: see `require_private`."""
    return Path(tempfile.gettempdir()) / f"perago-{os.getuid()}"


def require_private(directory: Path) -> None:
    """If a directory is below `user_directory`, create that with access for this user only.

    Its name can be predicted, and everybody may write to the temporary directory. `RuntimeConfigError` if another user made it.
    """
    top = user_directory()
    if not directory.is_relative_to(top):
        return
    with contextlib.suppress(FileExistsError):
        top.mkdir(mode=0o700)
    found = top.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise RuntimeConfigError(
            f"{top} is not a directory of this user; remove it, or set PERAGO_WORKSPACE_ROOT, PERAGO_CACHE_ROOT and "
            "PERAGO_LOG_ROOT to other directories"
        )
    top.chmod(0o700)


def _in_temporary_directory(name: str) -> Path:
    return user_directory() / name


def _user_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "perago"


Duration = Annotated[float, BeforeValidator(_seconds)]
PositiveDuration = Annotated[Duration, AfterValidator(_positive)]
Size = Annotated[int, BeforeValidator(_size), Field(ge=0)]
Directory = Annotated[Path, AfterValidator(_absolute)]


def _present(values: Mapping[str, str | None]) -> dict[str, str]:
    """Without surrounding blanks and without blank values, so that a blank variable does not override one in the file."""
    return {name: value.strip() for name, value in values.items() if value is not None and value.strip()}


class DownloadSettings(BaseModel):
    """The settings of what Perago downloads for itself. They are loaded separately where the others may be incomplete."""

    model_config = ConfigDict(
        # The variables are the field names in upper case.
        alias_generator=str.upper,
        frozen=True,
        hide_input_in_errors=True,
        # Other programs' variables may be in the file too.
        extra="ignore",
        validate_default=True,
    )

    perago_cache_dir: Directory = Field(default_factory=_user_cache)
    perago_maven_repository: Annotated[str, AfterValidator(lambda value: value.rstrip("/"))] | None = Field(
        default=None, repr=False
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_placeholder(cls, values: dict[str, Any]) -> dict[str, Any]:
        for name, value in values.items():
            if value == PLACEHOLDER:
                raise ValueError(f"{name} still has the placeholder value {PLACEHOLDER}; set it or remove it")
        return values


class Settings(DownloadSettings):
    """Every setting; a field's name is the variable in lower case."""

    conductor_server_url: Annotated[str, AfterValidator(_conductor_address)] | None = None
    conductor_auth_key: SecretStr | None = None
    conductor_auth_secret: SecretStr | None = None
    lakectl_server_endpoint_url: Annotated[str, AfterValidator(_web_address)] | None = None
    lakectl_credentials_access_key_id: SecretStr | None = None
    lakectl_credentials_secret_access_key: SecretStr | None = None
    perago_workspace_root: Directory = Field(default_factory=lambda: _in_temporary_directory("workspaces"))
    perago_log_root: Directory = Field(default_factory=lambda: _in_temporary_directory("logs"))
    perago_cache_root: Directory = Field(default_factory=lambda: _in_temporary_directory("cache"))
    perago_cache_max_size: Size = 10 * 10**9
    perago_log_file_max_size: Annotated[Size, AfterValidator(_positive)] = 100 * 10**6
    perago_log_retention: PositiveDuration = 30 * 86400.0
    perago_user: Annotated[str, AfterValidator(_one_line)] | None = None
    perago_worker_id_prefix: Annotated[str, AfterValidator(_worker_id_prefix)] | None = None
    perago_failure_reason_max_length: int = Field(default=500, ge=1)
    perago_unlabelled_head: Literal["replace", "refuse"] = "replace"
    perago_serve_built_in_tasks: bool = True
    perago_workspace_gc_ttl: PositiveDuration = 86400.0
    perago_workspace_gc_interval: PositiveDuration = 3600.0
    perago_keep_failed: Duration | None = Field(default=None, ge=0)
    perago_shutdown_force_kill_after: Duration | None = Field(default=None, ge=0)
    perago_spark_master: str | None = None
    perago_spark_remote: SecretStr | None = None
    perago_spark_conf_file: Directory | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        missing = [name for name in _LAKEFS if getattr(self, name.lower()) is None]
        if 0 < len(missing) < len(_LAKEFS):
            raise ValueError(f"LakeFS config is incomplete; missing {', '.join(missing)}")
        if (self.conductor_auth_key is None) != (self.conductor_auth_secret is None):
            absent = "CONDUCTOR_AUTH_KEY" if self.conductor_auth_key is None else "CONDUCTOR_AUTH_SECRET"
            raise ValueError(f"Conductor auth config is incomplete; missing {absent}")
        if self.perago_spark_master is not None and self.perago_spark_remote is not None:
            raise ValueError("PERAGO_SPARK_MASTER and PERAGO_SPARK_REMOTE exclude each other; set one of them")
        return self

    @property
    def conductor(self) -> ConductorAccess | None:
        """None unless an address is set."""
        if self.conductor_server_url is None:
            return None
        return ConductorAccess(
            self.conductor_server_url, _revealed(self.conductor_auth_key), _revealed(self.conductor_auth_secret)
        )

    @property
    def lakefs(self) -> LakeAccess | None:
        """None unless all three settings of lakeFS are set."""
        key, secret = _revealed(self.lakectl_credentials_access_key_id), _revealed(self.lakectl_credentials_secret_access_key)
        if self.lakectl_server_endpoint_url is None or key is None or secret is None:
            return None
        return LakeAccess(self.lakectl_server_endpoint_url, key, secret)

    def require_conductor(self, command: str) -> ConductorAccess:
        """`command` as it is typed, such as `perago start`; `RuntimeConfigError` without an address."""
        if self.conductor is None:
            raise RuntimeConfigError(f"{_CONDUCTOR} is required for {command}; {_how_to_set([_CONDUCTOR])}")
        return self.conductor

    def require_lakefs(self) -> LakeAccess:
        """`RuntimeConfigError` if lakeFS is not configured."""
        if self.lakefs is None:
            raise RuntimeConfigError(missing_lakefs("workspace tasks"))
        return self.lakefs

    def worker_id_prefix(self, module: str) -> str:
        """The prefix that was set, or the letters and digits of the module's name."""
        return self.perago_worker_id_prefix or re.sub(r"[^A-Za-z0-9]", "", module) or "worker"

    def resolved(self) -> dict[str, str]:
        """The local settings as they would be written, without secrets and server addresses."""
        force = self.perago_shutdown_force_kill_after
        return {
            "PERAGO_WORKSPACE_ROOT": str(self.perago_workspace_root),
            "PERAGO_LOG_ROOT": str(self.perago_log_root),
            "PERAGO_CACHE_ROOT": str(self.perago_cache_root),
            "PERAGO_CACHE_MAX_SIZE": human_units.show_size(self.perago_cache_max_size),
            "PERAGO_CACHE_DIR": str(self.perago_cache_dir),
            "PERAGO_LOG_FILE_MAX_SIZE": human_units.show_size(self.perago_log_file_max_size),
            "PERAGO_LOG_RETENTION": human_units.show_seconds(self.perago_log_retention),
            "PERAGO_USER": self.perago_user or "(the login name)",
            "PERAGO_WORKER_ID_PREFIX": self.perago_worker_id_prefix or "(from the module name)",
            "PERAGO_FAILURE_REASON_MAX_LENGTH": str(self.perago_failure_reason_max_length),
            "PERAGO_UNLABELLED_HEAD": self.perago_unlabelled_head,
            "PERAGO_SERVE_BUILT_IN_TASKS": str(self.perago_serve_built_in_tasks).lower(),
            "PERAGO_WORKSPACE_GC_TTL": human_units.show_seconds(self.perago_workspace_gc_ttl),
            "PERAGO_WORKSPACE_GC_INTERVAL": human_units.show_seconds(self.perago_workspace_gc_interval),
            "PERAGO_KEEP_FAILED": human_units.show_seconds(self.perago_keep_failed) if self.perago_keep_failed else "(off)",
            "PERAGO_SHUTDOWN_FORCE_KILL_AFTER": "(unset)" if force is None else human_units.show_seconds(force),
            "PERAGO_SPARK_MASTER": self._spark_address(),
        }

    def _spark_address(self) -> str:
        """Without the parameters of a Connect address, which may contain a token."""
        remote = _revealed(self.perago_spark_remote)
        return self.perago_spark_master or DEFAULT_SPARK_MASTER if remote is None else remote.partition(";")[0]


def load() -> Settings:
    """Read `.env` of the working directory and the environment; `RuntimeConfigError` if a setting is wrong."""
    return _load(Settings)


def load_downloads() -> DownloadSettings:
    """As `load`, for the settings of downloads only, so that an incomplete server configuration does not matter."""
    return _load(DownloadSettings)


def unknown_variables() -> list[str]:
    """A line for each variable in `.env` or the environment that begins with `PERAGO_` and is not a setting."""
    known = [name.upper() for name in Settings.model_fields]
    return [_unknown(name, known) for name in sorted(_variables()) if _is_unknown(name, known)]


def missing_lakefs(purpose: str) -> str:
    """The error text for a command or a task that needs lakeFS."""
    return f"LakeFS config is required for {purpose}; {_how_to_set(_LAKEFS)}"


def _how_to_set(names: Sequence[str]) -> str:
    """Where to set missing variables, and which variables look like a misspelling of them."""
    present = sorted(set(_variables()) - {name.upper() for name in Settings.model_fields})
    similar = {name: difflib.get_close_matches(name, present, n=1, cutoff=0.8) for name in names}
    misspelt = [f"; {close[0]} is not a setting of Perago: did you mean {name}?" for name, close in similar.items() if close]
    what = ", ".join(names) if len(names) > 1 else "it"
    where = f"set {what} in the environment or in {ENV_FILE}"
    return f"{where} ('perago dev --env-file {ENV_FILE}' runs local servers and writes it){''.join(misspelt)}"


def _is_unknown(name: str, known: list[str]) -> bool:
    if not name.startswith("PERAGO_") or name in known or name in _OTHER_VARIABLES:
        return False
    return _KUBERNETES_SERVICE.fullmatch(name) is None


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"{name} is not a setting of Perago" + (f"; did you mean {close[0]}?" if close else "")


_SettingsT = TypeVar("_SettingsT", bound=DownloadSettings)


def _load(kind: type[_SettingsT]) -> _SettingsT:
    try:
        return kind.model_validate(_variables())
    except ValidationError as error:
        raise RuntimeConfigError(_first_fault(error)) from None


def _variables() -> dict[str, str]:
    """Of the file and the environment, which takes precedence."""
    return _read_env_file() | _present(os.environ)


def _read_env_file() -> dict[str, str]:
    if not ENV_FILE.is_file():
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415 - takes time that a command without the file does not need

    try:
        # Secrets may contain `${`, so nothing is expanded.
        return _present(dotenv_values(ENV_FILE, interpolate=False, encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeConfigError(f"{ENV_FILE} cannot be read: {type(error).__name__}") from error


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _first_fault(error: ValidationError) -> str:
    """One line that names the variable and never the value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    names = [str(part) for part in first["loc"] if str(part).lower() in Settings.model_fields]
    return f"{names[0]}: {message}" if names else message
