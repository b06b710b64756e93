"""Where Spark runs and what its driver starts with: from settings to properties, without starting anything."""

import importlib.util
from pathlib import Path

import pytest

from perago.errors import RuntimeConfigError
from perago.model import LakeAccess, Repository
from perago.provision.progress import quiet
from perago.spark import committer_leftovers, driver, driver_directory, engine, options, runtime, s3a
from perago.spark.job_monitor import progress
from perago.spark.session import JobProgress

NEEDED = runtime.SparkRuntime(Path("/java"), Path("/spark"), (Path("/jars/a.jar"), Path("/jars/b.jar")), ("-XX:Quick=a b",))
ACCESS = LakeAccess("https://lake.example.com", "key-id", "secret-key")


def test_local_mode_is_the_default_and_needs_nothing_but_the_machine(tmp_path: Path) -> None:
    made = driver.start_properties(options.SparkOptions(tmp_path).chosen(), NEEDED, tmp_path)
    assert made["spark.master"] == "local[*]"
    assert made["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    assert made["spark.jars"] == ""
    assert made["spark.sql.session.timeZone"] == "UTC"
    assert made["spark.driver.defaultJavaOptions"].endswith(' "-XX:Quick=a b"')
    assert made["spark.hadoop.fs.s3a.input.stream.custom.factory"] == "perago.s3a.SizedStreams"


def test_a_cluster_gets_the_jars_shipped_beside_those_that_were_chosen(tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("# ours\nspark.jars /mine.jar\nspark.executor.memory=3g\nspark.sql.session.timeZone : Europe/Berlin\n\n")
    chosen = options.SparkOptions(tmp_path, master="spark://far:7077", conf_file=file).chosen()
    made = driver.start_properties(chosen, NEEDED, tmp_path)
    assert made["spark.master"] == "spark://far:7077"
    assert made["spark.jars"] == "file:///jars/a.jar,file:///jars/b.jar,/mine.jar"
    assert made["spark.executor.memory"] == "3g"
    assert made["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert "spark.driver.host" not in made
    assert "-XX:Quick" not in made["spark.driver.defaultJavaOptions"]


def test_a_conf_file_that_cannot_be_understood_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeConfigError, match="cannot be read: FileNotFoundError"):
        options.SparkOptions(tmp_path, conf_file=tmp_path / "none").chosen()
    (tmp_path / "odd").write_text("a b\n=x\n")
    with pytest.raises(RuntimeConfigError, match="line 2: write `key value`"):
        options.SparkOptions(tmp_path, conf_file=tmp_path / "odd").chosen()
    with pytest.raises(RuntimeConfigError, match="exclude each other"):
        options.SparkOptions(tmp_path, master="yarn", remote="sc://far")


def test_properties_survive_the_way_through_a_file() -> None:
    assert options.render({"a b": "c\\d", "e": "ü\n"}) == "a\\ b=c\\\\d\ne=\\u00fc\\n\n"


def test_connect_without_its_packages_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        RuntimeConfigError, match=r"needs grpc, .*; run: pip install 'pyspark\[connect\]>=4.2,<4.3' 'pandas>=2.2,<3'$"
    ):
        engine.make(options.SparkOptions(tmp_path, remote="sc://far"), quiet).start()


def test_credentials_stand_under_one_repository_and_in_no_text() -> None:
    made = s3a.session_settings(Repository("shop"), ACCESS)
    holding = {key for key, value in made.items() if value in {"key-id", "secret-key"}}
    assert holding == {"fs.s3a.bucket.shop.access.key", "fs.s3a.bucket.shop.secret.key"}
    assert made["fs.s3a.bucket.shop.connection.ssl.enabled"] == "true"
    assert "secret-key" not in repr(ACCESS)
    assert "key-id" not in repr(ACCESS)


@pytest.mark.parametrize(
    "path",
    ["a/", "a/_temporary/0/x", "a/__magic/x", "a/__magic_job-7/x", "a/.spark-staging-7/b=1/x", "a/.perago-attempt.json"],
)
def test_leftovers(path: str) -> None:
    assert committer_leftovers.is_leftover(path)


@pytest.mark.parametrize(
    "path", ["a/_SUCCESS", "a/_delta_log/0.json", "a/temporary/x", "a/x__magic", "_temporary_/x", "a/.spark/x"]
)
def test_data_files_are_not_leftovers(path: str) -> None:
    assert not committer_leftovers.is_leftover(path)


def test_directories_of_ended_drivers_are_removed_and_others_stay(tmp_path: Path) -> None:
    dead = tmp_path / "driver-dead"
    dead.mkdir()
    (dead / "lock").touch()
    (tmp_path / "somebody's").mkdir()
    first = driver_directory.create(tmp_path)
    second = driver_directory.create(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"somebody's", first.path.name, second.path.name}
    first.close()
    second.close()
    assert [path.name for path in tmp_path.iterdir()] == ["somebody's"]


def test_a_directory_that_cannot_be_removed_now_is_removed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise OSError(39, "Directory not empty", str(path))

    made = driver_directory.create(tmp_path)
    for name in ("a", "warehouse", "z"):
        (made.path / name).mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(driver_directory.shutil, "rmtree", fail)
        made.close()
    assert made.path.exists()
    driver_directory.sweep(tmp_path)
    assert not list(tmp_path.iterdir())


def test_progress_reads_like_a_sentence() -> None:
    assert progress(JobProgress(1, 8, 3, 0, 0)).note == "1 stage: 3 of 8 tasks"
    assert progress(JobProgress(2, 40, 12, 1500, 9)).note == "2 stages: 12 of 40 tasks, 1,500 rows written"
