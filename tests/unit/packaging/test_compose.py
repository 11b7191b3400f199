"""docker-compose.yml and what belongs to it, as far as it can be judged without running anything."""

import json
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docker-compose.yml"
TEXT = FILE.read_text(encoding="utf-8")
PROJECT: Mapping[str, Any] = yaml.safe_load(TEXT)
SERVICES: Mapping[str, Any] = PROJECT["services"]
DOCKERFILE = (ROOT / "deploy/docker/Dockerfile").read_text(encoding="utf-8")
PASSWORDS = ROOT / "deploy/docker/passwords.sh"
VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::([?-])([^}]*))?\}")
EXACT_TAG = re.compile(r"^[a-z0-9./-]+:v?\d+\.\d+\.\d+(\.\d+)*(-[a-z]+)*$")


def references() -> list[tuple[str, str, str]]:
    """Return (name, `?` or `-` or nothing, text after it) of every variable in the file's values."""
    return VARIABLE.findall(yaml.safe_dump(dict(PROJECT)))


def values(service: Mapping[str, Any]) -> Iterator[str]:
    yield from (str(value) for value in service.get("environment", {}).values())
    yield from (str(word) for key in ("entrypoint", "command") for word in service.get(key, ()))
    yield from (str(word) for word in service.get("healthcheck", {}).get("test", ()))


def mounts(service: Mapping[str, Any]) -> list[list[str]]:
    return [str(volume).split(":") for volume in service.get("volumes", ())]


def one_shot(name: str) -> bool:
    """Return whether others wait for the service's end, or it is run by hand."""
    waited = (each.get("depends_on", {}).get(name, {}).get("condition") for each in SERVICES.values())
    return "service_completed_successfully" in waited or SERVICES[name]["restart"] == "no"


def test_up_wait_ends_as_what_ends_by_itself_is_waited_for_by_another() -> None:
    # Compose waits for the end of such a service alone where another one does, and else for ever that it runs.
    ended = {name for name, service in SERVICES.items() if str(service.get("restart")).startswith("on-failure")}
    waited = {
        name
        for service in SERVICES.values()
        for name, how in service.get("depends_on", {}).items()
        if how["condition"] == "service_completed_successfully"
    }
    assert ended == waited == {"schema", "queue-folder"}
    assert all("profiles" in SERVICES[name] for name in SERVICES if SERVICES[name]["restart"] == "no")


def test_what_follows_the_report_s_name_are_its_options() -> None:
    assert SERVICES["report"]["entrypoint"] == ["gua", "report"]
    assert "command" not in SERVICES["report"]


def test_it_is_a_compose_file_by_the_official_schema() -> None:
    schema = json.loads((ROOT / "tests/fixtures/compose-spec/compose-spec.json").read_text(encoding="utf-8"))
    faults = [f"{fault.json_path}: {fault.message}" for fault in Draft202012Validator(schema).iter_errors(PROJECT)]
    assert faults == []
    assert list(Draft202012Validator(schema).iter_errors({"services": {"a": {"image": 1}}})), "it can fail"


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_has_an_exact_version_or_is_built_here(name: str) -> None:
    service = SERVICES[name]
    if "build" in service:
        assert (ROOT / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        assert service["image"] == PROJECT["x-gua"]["image"]
    else:
        assert EXACT_TAG.match(service["image"]), service["image"]


def test_the_collector_is_the_version_that_the_tests_run() -> None:
    manifest = (ROOT / "otel-collector/builder.yaml").read_text(encoding="utf-8")
    tag = SERVICES["collector"]["image"].rpartition(":")[2]
    assert f"receiver/otlpreceiver v{tag}" in manifest


@pytest.mark.parametrize("name", SERVICES)
def test_every_port_is_on_the_loopback_address(name: str) -> None:
    for port in SERVICES[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), port
    assert SERVICES[name].get("network_mode") in {None, "none"}


def test_no_two_services_publish_the_same_port() -> None:
    published = [port.split(":")[1] for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(published) == len(set(published))


def test_every_password_is_required_and_none_stands_in_the_file() -> None:
    secrets = {
        name: value
        for service in SERVICES.values()
        for name, value in service.get("environment", {}).items()
        if "PASSWORD" in name
    }
    assert len(secrets) >= 6
    for name, value in secrets.items():
        found = VARIABLE.fullmatch(value)
        assert found is not None, name
        assert found[2] == "?", f"{name} may be empty"
        assert "passwords.sh" in found[3], f"{name} does not say what to do"


def test_every_variable_is_documented_at_the_top_and_has_a_default_or_is_required() -> None:
    head = TEXT.partition("\nname:")[0]
    documented = set(re.findall(r"^# {3}(GUA_[A-Z_]+) ", head, re.MULTILINE))
    assert documented == {name for name, _, _ in references()}
    for name, mark, default in references():
        assert mark == "?" or (mark == "-" and default), name
        if mark == "-":
            assert f"default {default}" in head, name


def test_one_variable_has_one_default() -> None:
    defaults: dict[str, set[tuple[str, str]]] = {}
    for name, mark, text in references():
        defaults.setdefault(name, set()).add((mark, text))
    assert [name for name, found in defaults.items() if len(found) > 1] == []


@pytest.mark.parametrize("name", SERVICES)
def test_every_mounted_file_is_in_the_checkout_and_read_only(name: str) -> None:
    for source, _, *mode in mounts(SERVICES[name]):
        if source.startswith("."):
            assert (ROOT / source).exists(), source
            assert mode == ["ro"], source


def test_every_volume_is_declared_and_used() -> None:
    used = {
        source for service in SERVICES.values() for source, *_ in mounts(service) if not source.startswith((".", "/"))
    }
    assert used == set(PROJECT["volumes"])


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_checked_or_watched_or_runs_to_its_end(name: str) -> None:
    service = SERVICES[name]
    if one_shot(name):
        assert "healthcheck" not in service
        assert service["restart"] == "no" or service["restart"].startswith("on-failure")
        return
    assert service["restart"] == "unless-stopped"
    watched = any(
        f"http://{name}:" in str(other.get("healthcheck")) and name in other.get("depends_on", {})
        for other in SERVICES.values()
    )
    assert "healthcheck" in service or watched


@pytest.mark.parametrize("name", SERVICES)
def test_the_conditions_of_depends_on_can_be_met(name: str) -> None:
    for other, wanted in SERVICES[name].get("depends_on", {}).items():
        dependency = SERVICES[other]
        assert not dependency.get("profiles"), f"{other} may not be started"
        match wanted["condition"]:
            case "service_healthy":
                assert "healthcheck" in dependency
                assert dependency["restart"] == "unless-stopped"
            case "service_completed_successfully":
                assert one_shot(other)
            case condition:
                assert condition == "service_started"
                assert not one_shot(other)


def test_no_service_waits_for_itself() -> None:
    def all_before(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, (*path, name)
        for other in SERVICES[name].get("depends_on", {}):
            all_before(other, (*path, name))

    for name in SERVICES:
        all_before(name, ())


@pytest.mark.parametrize("name", SERVICES)
def test_every_host_that_a_service_speaks_to_is_a_service(name: str) -> None:
    for value in values(SERVICES[name]):
        for host in re.findall(r"(?:tcp|https?|clickhouses?)://(?:[^@/]*@)?([^:/]+):\d+", value):
            assert host == "127.0.0.1" or host in SERVICES, value
            assert SERVICES[name].get("network_mode") is None


def test_the_simulated_host_s_and_the_reports_settings_are_ones_that_gua_reads() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for name, service in SERVICES.items():
        if "build" in service:
            for variable in service["environment"]:
                assert f'"{variable}"' in sources, (name, variable)


def test_the_collector_s_settings_are_ones_that_its_config_reads() -> None:
    config = (ROOT / "otel-collector/config.yaml").read_text(encoding="utf-8")
    for variable in SERVICES["collector"]["environment"]:
        assert f"${{env:{variable}" in config, variable


def test_clickhouse_gets_exactly_the_passwords_that_its_users_have() -> None:
    users = (ROOT / "deploy/clickhouse/users.xml").read_text(encoding="utf-8")
    assert set(re.findall(r'from_env="(\w+)"', users)) == set(SERVICES["clickhouse"]["environment"])


def test_grafana_gets_the_variables_and_files_that_its_provisioning_uses() -> None:
    grafana = SERVICES["grafana"]
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "deploy/grafana/provisioning").rglob("*.yaml")]
    referenced = {name for text in files for name in re.findall(r"\$\{(GUA_\w+)\}", text)}
    assert referenced == {name for name in grafana["environment"] if name.startswith("GUA_")}
    paths = {path for text in files for path in re.findall(r"^\s+path: (\S+)$", text, re.MULTILINE)}
    assert paths
    assert paths <= {target for _, target, *_ in mounts(grafana)}
    plugins = {name.partition("@")[0] for name in grafana["environment"]["GF_PLUGINS_PREINSTALL_SYNC"].split(",")}
    assert plugins == {kind for text in files for kind in re.findall(r"^\s+type: (grafana-\S+)$", text, re.MULTILINE)}
    assert grafana["environment"]["GUA_CLICKHOUSE_HOST"] in SERVICES


def test_the_image_copies_only_what_the_build_may_see() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*", "what is not named stays out, .env first of all"
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copied = {
        word for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / path).exists() for path in copied)
    assert not any(fnmatch(".env", pattern) for pattern in allowed)


def test_the_image_has_all_that_the_wheel_is_made_of() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = {"pyproject.toml", "uv.lock", "src"}
    named |= set(re.findall(r'^(?:readme = |license-files = \[)"([^"]+)"', project, re.MULTILINE))
    forced = project.partition("[tool.hatch.build.targets.wheel.force-include]\n")[2].partition("\n[")[0]
    named |= {line.partition(" = ")[0].strip('"') for line in forced.splitlines() if " = " in line}
    missing = {path for path in named if not re.search(rf"^COPY .*\b{re.escape(path)}\b", DOCKERFILE, re.MULTILINE)}
    assert missing == set()


def test_the_image_is_pinned_small_and_not_root() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert EXACT_TAG.match(bases[0])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (version,) = re.findall(r"uv==([\d.]+)", DOCKERFILE)
    assert f"UV_VERSION := {version}\n" in makefile
    assert "--frozen" in DOCKERFILE
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    assert "pip install" not in final


def test_the_state_of_the_simulated_host_is_a_folder_that_its_user_may_write() -> None:
    # A new named volume takes the owner of the folder that it covers in the image.
    ((_, target, *_),) = mounts(SERVICES["simulated-host"])
    assert SERVICES["simulated-host"]["environment"]["GUA_SIMULATE_STATE"] == target
    assert re.search(rf"install --directory --owner gua .* {re.escape(target)}$", DOCKERFILE, re.MULTILINE)


def test_passwords_are_invented_once_for_this_user_alone(tmp_path: Path) -> None:
    def invent() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", str(PASSWORDS)], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert invent().returncode == 0
    made = (tmp_path / ".env").read_text()
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    pairs = dict(line.split("=") for line in made.splitlines())
    assert set(pairs) == {name for name, mark, _ in references() if mark == "?"}
    assert len(set(pairs.values())) == len(pairs)
    assert all(re.fullmatch(r"[0-9a-f]{48}", value) for value in pairs.values())
    assert made not in invent().stdout
    assert invent().returncode == 1
    assert (tmp_path / ".env").read_text() == made


def test_passwords_do_not_end_in_a_commit() -> None:
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
