"""Sources of settings, refused values, warnings about unknown variables, and that secrets are never shown."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perago import human_units, settings
from perago.errors import RuntimeConfigError
from perago.provision import artifact_cache

Load = Callable[..., settings.Settings]

LAKEFS = {
    "LAKECTL_SERVER_ENDPOINT_URL": "http://lake:8000",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIAKEY",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "hush-hush",
}


@pytest.fixture(autouse=True)
def _no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("CONDUCTOR_", "LAKECTL_", "PERAGO_", "XDG_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Settings of a `.env` file and of environment variables."""

    def load(env_file: str = "", **environ: str) -> settings.Settings:
        (tmp_path / ".env").write_text(env_file)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return settings.load()

    return load


def test_defaults() -> None:
    found = settings.load()
    assert found.conductor is None
    assert found.lakefs is None
    assert found.perago_workspace_root.parts[-2:] == (f"perago-{os.getuid()}", "workspaces")
    assert found.perago_log_root.parts[-2:] == (f"perago-{os.getuid()}", "logs")
    assert (found.perago_log_file_max_size, found.perago_log_retention) == (100_000_000, 30 * 86400)
    assert (found.perago_workspace_gc_ttl, found.perago_workspace_gc_interval) == (86400, 3600)
    assert found.perago_failure_reason_max_length == 500
    assert found.perago_unlabelled_head == "replace"
    assert found.perago_shutdown_force_kill_after is None


def test_environment_wins_over_env_file(load: Load) -> None:
    found = load("PERAGO_WORKSPACE_GC_TTL=1h\nPERAGO_LOG_RETENTION=7d\n", PERAGO_WORKSPACE_GC_TTL="2h")
    assert found.perago_workspace_gc_ttl == 7200
    assert found.perago_log_retention == 7 * 86400


def test_env_file_reaches_download_settings(load: Load) -> None:
    found = load("PERAGO_CACHE_DIR=/srv/tools\nPERAGO_MAVEN_REPOSITORY=https://maven.example/repo/\n")
    assert found.perago_cache_dir == Path("/srv/tools")
    assert found.perago_maven_repository == "https://maven.example/repo"
    alone = settings.load_downloads()
    assert (alone.perago_cache_dir, alone.perago_maven_repository) == (Path("/srv/tools"), "https://maven.example/repo")


def test_env_file_reaches_the_download_cache(load: Load, tmp_path: Path) -> None:
    load(f"PERAGO_CACHE_DIR={tmp_path / 'tools'}")
    assert artifact_cache.default_root() == tmp_path / "tools"


def test_download_settings_do_not_need_the_others(load: Load) -> None:
    with pytest.raises(RuntimeConfigError):
        load("LAKECTL_SERVER_ENDPOINT_URL=http://lake:8000")
    assert settings.load_downloads().perago_cache_dir.name == "perago"


def test_env_file_is_not_expanded(load: Load) -> None:
    found = load("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=a${HOME}b\n", **{name: LAKEFS[name] for name in list(LAKEFS)[:2]})
    assert found.require_lakefs().secret_access_key == "a${HOME}b"


def test_other_variables_in_env_file_are_ignored(load: Load) -> None:
    assert load("MY_OWN=1\nperago_log_retention=1d\n").perago_log_retention == 30 * 86400


def test_unreadable_env_file_is_one_error(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(RuntimeConfigError, match=r"\.env cannot be read: UnicodeDecodeError$"):
        settings.load()


@pytest.mark.parametrize("in_file", [True, False])
def test_unknown_variable_is_reported_with_a_suggestion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_file: bool) -> None:
    if in_file:
        (tmp_path / ".env").write_text("PERAGO_LOGROOT=/x\n")
    else:
        monkeypatch.setenv("PERAGO_LOGROOT", "/x")
    assert settings.unknown_variables() == ["PERAGO_LOGROOT is not a setting of Perago; did you mean PERAGO_LOG_ROOT?"]


def test_unknown_variable_without_a_similar_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERAGO_COFFEE", "black")
    assert settings.unknown_variables() == ["PERAGO_COFFEE is not a setting of Perago"]


@pytest.mark.parametrize(
    "name",
    [
        *(name.upper() for name in settings.Settings.model_fields),
        "PERAGO_MODULES",
        "PERAGO_JOBS",
        "PERAGO_METRICS_PORT",
        "PERAGO_TEST_STACK",
        "PERAGO_WORKER_SERVICE_HOST",
        "PERAGO_WORKER_PORT_9464_TCP_ADDR",
        "OTHER_LOGROOT",
    ],
)
def test_known_variables_are_not_reported(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert settings.unknown_variables() == []


@pytest.mark.parametrize("blank", ["", "   ", "\t"])
def test_blank_variable_does_not_hide_value_in_file(load: Load, blank: str) -> None:
    found = load("CONDUCTOR_SERVER_URL=http://c:8080/api\nCONDUCTOR_AUTH_KEY=\n", CONDUCTOR_SERVER_URL=blank)
    assert found.conductor == settings.ConductorAccess("http://c:8080/api")


def test_placeholder_is_refused(load: Load) -> None:
    with pytest.raises(RuntimeConfigError, match="LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY still has the placeholder"):
        load(**LAKEFS | {"LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "replace-me"})


def test_incomplete_lakefs_settings_are_refused(load: Load) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        load(LAKECTL_SERVER_ENDPOINT_URL="http://lake:8000")
    assert str(caught.value) == (
        "LakeFS config is incomplete; missing LAKECTL_CREDENTIALS_ACCESS_KEY_ID, LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
    )


def test_incomplete_conductor_login_is_refused(load: Load) -> None:
    with pytest.raises(RuntimeConfigError, match=r"^Conductor auth config is incomplete; missing CONDUCTOR_AUTH_SECRET$"):
        load(CONDUCTOR_SERVER_URL="http://c/api", CONDUCTOR_AUTH_KEY="k")


def test_required_settings_are_reported_in_documented_words() -> None:
    found = settings.load()
    with pytest.raises(RuntimeConfigError, match=r"^CONDUCTOR_SERVER_URL is required for perago start; set it in "):
        found.require_conductor("perago start")
    with pytest.raises(
        RuntimeConfigError, match=r"^LakeFS config is required for workspace tasks; set LAKECTL_SERVER_ENDPOINT_URL, "
    ):
        found.require_lakefs()


def test_conductor_address_without_path_gets_api(load: Load) -> None:
    assert load(CONDUCTOR_SERVER_URL="http://c:8080/").require_conductor("x").url == "http://c:8080/api"


@pytest.mark.parametrize("url", ["c:8080", "ftp://c", "http://", "http://c:99999/"])
def test_invalid_addresses_are_refused(load: Load, url: str) -> None:
    with pytest.raises(RuntimeConfigError, match=r"^CONDUCTOR_SERVER_URL: must be an address"):
        load(CONDUCTOR_SERVER_URL=url)


def test_address_with_password_is_refused_without_repeating_it(load: Load) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        load(CONDUCTOR_SERVER_URL="http://me:hush-hush@c/api")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PERAGO_WORKSPACE_GC_TTL", "soon"),
        ("PERAGO_WORKSPACE_GC_INTERVAL", "0"),
        ("PERAGO_LOG_FILE_MAX_SIZE", "many"),
        ("PERAGO_LOG_FILE_MAX_SIZE", "0"),
        ("PERAGO_WORKER_ID_PREFIX", "my-worker"),
        ("PERAGO_WORKER_ID_PREFIX", "wörker"),
        ("PERAGO_FAILURE_REASON_MAX_LENGTH", "0"),
        ("PERAGO_UNLABELLED_HEAD", "keep"),
        ("PERAGO_SHUTDOWN_FORCE_KILL_AFTER", "-1"),
    ],
)
def test_wrong_value_names_its_variable(load: Load, name: str, value: str) -> None:
    with pytest.raises(RuntimeConfigError, match=f"^{name}: "):
        load(**{name: value})


def test_no_text_of_the_settings_contains_a_secret(load: Load) -> None:
    found = load(**LAKEFS, CONDUCTOR_SERVER_URL="http://c", CONDUCTOR_AUTH_KEY="AKIAKEY", CONDUCTOR_AUTH_SECRET="hush-hush")
    for text in (
        repr(found),
        str(found),
        repr(found.lakefs),
        repr(found.conductor),
        found.model_dump_json(),
        str(found.resolved()),
    ):
        assert "hush" not in text
        assert "AKIAKEY" not in text
    assert found.require_lakefs().secret_access_key == "hush-hush"


def test_worker_id_prefix_comes_from_module_unless_set(load: Load) -> None:
    assert load().worker_id_prefix("my_tasks.build_features") == "mytasksbuildfeatures"
    assert load(PERAGO_WORKER_ID_PREFIX="gpu").worker_id_prefix("m") == "gpu"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("30s", 30), ("15m", 900), ("24h", 86400), ("30d", 2592000), ("1h30m", 5400), ("250ms", 0.25)],
)
def test_durations(text: str, expected: float) -> None:
    assert human_units.seconds(text) == expected


@pytest.mark.parametrize("text", ["", "h", "1w", "1h 3x", "-5s", "1..5s"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="write a duration"):
        human_units.seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0), ("4096", 4096), ("100MB", 10**8), ("1.5 GB", 15 * 10**8), ("2GiB", 2**31)]
)
def test_sizes(text: str, expected: int) -> None:
    assert human_units.size(text) == expected


@pytest.mark.parametrize("text", ["", "MB", "10XB", "-1", "1MB2"])
def test_invalid_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="write a size"):
        human_units.size(text)
