"""Where settings come from, what they refuse, and that no secret leaves them."""

from pathlib import Path

import pytest

from perago import human_units, settings
from perago.errors import RuntimeConfigError

LAKEFS = {
    "LAKECTL_SERVER_ENDPOINT_URL": "http://lake:8000",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIAKEY",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "hush-hush",
}


def load(tmp_path: Path, env_file: str = "", **environ: str) -> settings.Settings:
    (tmp_path / ".env").write_text(env_file)
    return settings.load(tmp_path, environ)


def test_defaults_without_any_setting(tmp_path: Path) -> None:
    found = settings.load(tmp_path, {})
    assert found.conductor is None
    assert found.lakefs is None
    assert found.perago_workspace_root.parts[-2:] == ("perago", "workspaces")
    assert found.perago_log_root.parts[-2:] == ("perago", "logs")
    assert (found.perago_log_file_max_size, found.perago_log_retention) == (100_000_000, 30 * 86400)
    assert (found.perago_workspace_gc_ttl, found.perago_workspace_gc_interval) == (86400, 3600)
    assert found.perago_failure_reason_max_length == 500
    assert found.perago_unlabelled_head == "replace"
    assert found.perago_shutdown_force_kill_after is None


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    found = load(tmp_path, "PERAGO_WORKSPACE_GC_TTL=1h\nPERAGO_LOG_RETENTION=7d\n", PERAGO_WORKSPACE_GC_TTL="2h")
    assert found.perago_workspace_gc_ttl == 7200
    assert found.perago_log_retention == 7 * 86400


@pytest.mark.parametrize("blank", ["", "   ", "\t"])
def test_blank_is_unset_and_hides_nothing(tmp_path: Path, blank: str) -> None:
    found = load(tmp_path, "CONDUCTOR_SERVER_URL=http://c:8080/api\nCONDUCTOR_AUTH_KEY=\n", CONDUCTOR_SERVER_URL=blank)
    assert found.conductor == settings.ConductorAccess("http://c:8080/api")


def test_the_placeholder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeConfigError, match="LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY still has the placeholder"):
        load(tmp_path, **LAKEFS | {"LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "replace-me"})


def test_half_a_lakefs_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        load(tmp_path, LAKECTL_SERVER_ENDPOINT_URL="http://lake:8000")
    assert str(caught.value) == (
        "LakeFS config is incomplete; missing LAKECTL_CREDENTIALS_ACCESS_KEY_ID, LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
    )


def test_half_a_conductor_login_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeConfigError, match=r"^Conductor auth config is incomplete; missing CONDUCTOR_AUTH_SECRET$"):
        load(tmp_path, CONDUCTOR_SERVER_URL="http://c/api", CONDUCTOR_AUTH_KEY="k")


def test_what_is_required_is_said_in_the_documented_words(tmp_path: Path) -> None:
    found = settings.load(tmp_path, {})
    with pytest.raises(RuntimeConfigError, match=r"^CONDUCTOR_SERVER_URL is required for perago start$"):
        found.require_conductor("perago start")
    with pytest.raises(RuntimeConfigError, match=r"^LakeFS config is required for workspace tasks$"):
        found.require_lakefs()


def test_conductor_without_a_path_means_its_api(tmp_path: Path) -> None:
    assert load(tmp_path, CONDUCTOR_SERVER_URL="http://c:8080/").require_conductor("x").url == "http://c:8080/api"


@pytest.mark.parametrize("url", ["c:8080", "ftp://c", "http://", "http://c:99999/"])
def test_addresses_that_are_none(tmp_path: Path, url: str) -> None:
    with pytest.raises(RuntimeConfigError, match=r"^CONDUCTOR_SERVER_URL: must be an address"):
        load(tmp_path, CONDUCTOR_SERVER_URL=url)


def test_an_address_with_a_password_is_refused_without_repeating_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        load(tmp_path, CONDUCTOR_SERVER_URL="http://me:hush-hush@c/api")
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
def test_a_wrong_value_names_its_variable(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(RuntimeConfigError, match=f"^{name}: "):
        load(tmp_path, **{name: value})


def test_no_secret_in_any_text_of_the_settings(tmp_path: Path) -> None:
    found = load(
        tmp_path, **LAKEFS, CONDUCTOR_SERVER_URL="http://c", CONDUCTOR_AUTH_KEY="AKIAKEY", CONDUCTOR_AUTH_SECRET="hush-hush"
    )
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


def test_the_worker_id_prefix_comes_from_the_module_unless_set(tmp_path: Path) -> None:
    assert settings.load(tmp_path, {}).worker_id_prefix("my_tasks.build_features") == "mytasksbuildfeatures"
    assert load(tmp_path, PERAGO_WORKER_ID_PREFIX="gpu").worker_id_prefix("m") == "gpu"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("30s", 30), ("15m", 900), ("24h", 86400), ("30d", 2592000), ("1h30m", 5400), ("250ms", 0.25)],
)
def test_durations(text: str, expected: float) -> None:
    assert human_units.seconds(text) == expected


@pytest.mark.parametrize("text", ["", "h", "1w", "1h 3x", "-5s", "1..5s"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="write a duration"):
        human_units.seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0), ("4096", 4096), ("100MB", 10**8), ("1.5 GB", 15 * 10**8), ("2GiB", 2**31)]
)
def test_sizes(text: str, expected: int) -> None:
    assert human_units.size(text) == expected


@pytest.mark.parametrize("text", ["", "MB", "10XB", "-1", "1MB2"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="write a size"):
        human_units.size(text)
