"""The sources of a setting, and the settings that a project's own file may not change."""

from pathlib import Path

import pytest

from store.home import config
from store.home.config import Choices, Settings
from store.home.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "deep"
    folder.mkdir(parents=True)
    (tmp_path / "work" / ".git").mkdir()
    return folder


def load(home: Path, cwd: Path | None = None, **environ: str) -> Settings:
    return config.load(cwd, {"MNEMOLOG_HOME": str(home), **environ})


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_defaults_hold_without_files_and_variables(home: Path, project: Path):
    settings = load(home, project)
    assert (settings.choices, settings.home, dict(settings.origin)) == (Choices(), home, {})
    assert settings.token_file.parent == settings.server_file.parent == home
    assert not home.exists()


def test_later_layers_win_key_by_key(home: Path, project: Path):
    user = write(home / "config.toml", "top_k = 3\nport = 7000\nmin_confidence = 0.5\n")
    local = write(project.parent / ".mnemolog.toml", "top_k = 4\nmin_confidence = 0.6\n")
    settings = load(home, project, MNEMOLOG_TOP_K="5")
    assert (settings.choices.port, settings.choices.min_confidence, settings.choices.top_k) == (
        7000,
        0.6,
        5,
    )
    assert dict(settings.origin) == {
        "port": str(user),
        "min_confidence": str(local),
        "top_k": "environment",
    }


def test_the_projects_file_is_not_read_outside_its_repository(home: Path, project: Path):
    write(project.parent / ".mnemolog.toml", "top_k = 4\n")
    assert load(home).choices.top_k == load(home, home.parent).choices.top_k == Choices().top_k


@pytest.mark.parametrize("line", ["tenant = 'other'", "port = 1", "embedder = 'x'", "token = 'x'"])
def test_a_projects_file_may_not_reach_another_memory(home: Path, project: Path, line: str):
    path = write(project.parent / ".mnemolog.toml", f"top_k = 3\n{line}\n")
    with pytest.raises(ConfigError, match=f"may not set {line.split()[0]}") as caught:
        load(home, project)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("colour = 'red'", "colour"),
        ("port = 'many'", "port"),
        ("port = 0", "port"),
        ("top_k = 201", "top_k"),
        ("fusion = 'magic'", "fusion"),
        ("min_confidence = 2.0", "min_confidence"),
        ("this is not TOML", "line 1"),
    ],
)
def test_a_wrong_line_is_named_with_its_file(home: Path, text: str, named: str):
    path = write(home / "config.toml", text)
    with pytest.raises(ConfigError, match=named) as caught:
        load(home)
    assert str(path) in str(caught.value)


def test_a_wrong_variable_is_named(home: Path):
    with pytest.raises(ConfigError, match=r"^MNEMOLOG_PORT is .*: use a whole number"):
        load(home, MNEMOLOG_PORT="many")


def test_a_binary_user_file_is_named(home: Path):
    write(home / "config.toml", "").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"config\.toml is not TOML"):
        load(home)


def test_the_home_may_start_with_a_tilde(tmp_path: Path):
    assert config.load(None, {"MNEMOLOG_HOME": "~/memory"}).home == tmp_path / "memory"


def test_a_removed_setting_has_no_effect_and_is_named(home: Path):
    path = write(home / "config.toml", 'layers = ["parts"]\ntop_k = 3\n')
    settings = load(home)
    assert (settings.choices, config.choices_in(settings, None)) == (
        Choices(top_k=3),
        Choices(top_k=3),
    )
    assert str(path) in settings.removed[0] and "`layers`" in settings.removed[0]
    assert "environment" in load(home, MNEMOLOG_LAYERS="magic").removed[0]
    config.keep(home, {"embedder": "lexical"})
    assert 'layers = ["parts"]' in path.read_text()


def test_a_variable_chooses_what_is_recorded(home: Path):
    assert load(home).choices.record == config.RECORD_KINDS
    assert load(home, MNEMOLOG_RECORD="prompts,words").choices.record == ("prompts", "words")
    assert load(home, MNEMOLOG_RECORD="false").choices.record == ()


@pytest.mark.parametrize("line", ["record = ['prompts', 'thoughts']", "record = 'prompts'"])
def test_an_unknown_kind_names_file_key_and_cure(home: Path, line: str):
    path = write(home / "config.toml", line)
    with pytest.raises(
        ConfigError, match=r"`record`.* use .*prompts, commands, outputs, words"
    ) as e:
        load(home)
    assert str(path) in str(e.value)


def test_a_project_file_can_only_remove_recorded_kinds(home: Path, project: Path):
    write(home / "config.toml", "record = ['prompts', 'commands']")
    local = write(project.parent / ".mnemolog.toml", "record = ['commands', 'outputs']")
    settings = load(home, project)
    assert settings.choices.record == ("commands",)
    assert settings.origin["record"] == str(local)
    write(local, "record = true")
    assert load(home, project).choices.record == ("prompts", "commands")
    write(local, "record = false")
    assert load(home, project, MNEMOLOG_RECORD="true").choices.record == ()


def test_project_files_apply_from_the_root_down(home: Path, project: Path):
    write(project.parent / ".mnemolog.toml", "top_k = 4\nrecord = ['prompts', 'words']")
    write(project / ".mnemolog.toml", "top_k = 5\nrecord = ['prompts', 'outputs']")
    assert config.project_files(project) == [
        project.parent / ".mnemolog.toml",
        project / ".mnemolog.toml",
    ]
    choices = load(home, project).choices
    assert (choices.top_k, choices.record) == (5, ("prompts",))


@pytest.mark.parametrize(
    ("said", "is_off"), [("1", True), ("yes", True), ("0", False), ("", False)]
)
def test_an_environment_variable_disables_one_run(said: str, is_off: bool):
    assert config.is_off({"MNEMOLOG_OFF": said}) is is_off


def test_a_kept_value_leaves_comments_and_an_undone_one_leaves_nothing(home: Path):
    path = write(home / "config.toml", "# mine\ntop_k = 3 # few\n")
    config.keep(home, {"profile": "wal", "profiles.wal.recency": 0.5})
    assert "# mine" in path.read_text() and "top_k = 3 # few" in path.read_text()
    assert config.kept_value(home, "profiles.wal.recency") == 0.5
    assert load(home).choices.profiles.wal.recency == 0.5
    config.keep(home, {"profile": None, "profiles.wal.recency": None})
    assert path.read_text().split() == "# mine top_k = 3 # few".split()
    with pytest.raises(ConfigError, match="`top_k` is 0"):
        config.keep(home, {"top_k": 0})
    assert load(home).choices.top_k == 3


def test_changed_holdout_and_replica_apply_without_a_restart(home: Path):
    began = load(home)
    config.keep(home, {"holdout": 0.2, "replica": "/mnt/disk"})
    now = config.refresh(began).choices
    assert (now.holdout, now.replica) == (0.2, "/mnt/disk")
    assert config.choices_in(began, None).holdout == 0.2
    config.keep(home, {"holdout": None, "replica": None})
    assert config.refresh(load(home)).choices == Choices()


def test_changed_recall_settings_apply_without_a_restart(home: Path):
    path = write(home / "config.toml", "top_k = 3\n")
    began = load(home, MNEMOLOG_FUSION="rrf")
    write(path, "fusion = 'weighted'\nprofile = 'wal'\nembedder = 'table:x'\n")
    now = config.refresh(began).choices
    assert (now.top_k, now.profile, now.fusion) == (Choices().top_k, "wal", "rrf")
    assert now.embedder == "table:x"  # recall's embedder, once its vectors are built
    assert config.choices_in(began, None).profile == "wal"
    write(path, "profile = 'none'\n")
    with pytest.raises(ConfigError, match="profile"):
        config.refresh(began)
