"""Which model a process serves, by arguments that may be anybody's and anything."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest

from gua.core.workloads import LONGEST_LABEL
from gua.identity import served_models
from gua.identity.served_models import MOST_ANCESTORS, ServedModels, model_name, served
from gua.procfs.command_line import read_arguments
from gua.procfs.reader import ProcFs


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/venv/bin/python3 /venv/bin/vllm serve meta-llama/Llama-3.1-8B -p 80", ("vLLM", "meta-llama/Llama-3.1-8B")),
        ("python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen2.5-32B", ("vLLM", "Qwen/Qwen2.5-32B")),
        ("python3 -u -m vllm.entrypoints.api_server --model=/data/models/qwen-32b/", ("vLLM", "qwen-32b")),
        ("vllm serve --model facebook/opt-125m", ("vLLM", "facebook/opt-125m")),
        ("vllm bench serve x/y", (None, None)),
        ("python -m sglang.launch_server --model-path ~/m/deepseek-r1 --tp 8", ("SGLang", "deepseek-r1")),
        ("lm_eval --model hf --model_args pretrained=org/gpt-j-6B,token=hf_secretsecret", ("lm_eval", "org/gpt-j-6B")),
        ("python -m lm_eval --model hf --model_args dtype=float,pretrained=gpt2", ("lm_eval", "gpt2")),
        ("text-generation-launcher --model-id bigscience/bloom-560m", ("TGI", "bigscience/bloom-560m")),
        ("/opt/bin/text-generation-server serve tiiuae/falcon-7b --sharded", ("TGI", "tiiuae/falcon-7b")),
        ("llama-server -m /srv/gguf/llama-3-8b.Q4_K_M.gguf --api-key abc", ("llama.cpp", "llama-3-8b.Q4_K_M.gguf")),
        (
            "vllm serve /root/.cache/huggingface/hub/models--mistralai--Mistral-7B-v0.1/snapshots/26bca36bde8333b5",
            ("vLLM", "mistralai/Mistral-7B-v0.1"),
        ),
        ("ollama runner --model /root/.ollama/models/blobs/sha256-" + "a" * 64, (None, None)),
        ("python train.py --model secret-project --password hunter2", (None, None)),
        ("bash -c vllm", (None, None)),
        ("python -c import_vllm --model x/y", (None, None)),
        ("vllm serve", (None, None)),
        ("vllm", (None, None)),
        ("python", (None, None)),
        ("", (None, None)),
        ("vllm.evil serve x/y", (None, None)),
        ("python -m vllmx.entrypoints --model x/y", (None, None)),
    ],
)  # fmt: skip
def test_known_servers_name_their_model_and_nothing_else_does(
    line: str, expected: tuple[str | None, str | None]
) -> None:
    assert served(line.split()) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(
            "key=value",
            "s3://bucket/model",
            "user@host",
            "host:8000",
            "a b",
            "x" * (LONGEST_LABEL + 1),
            "",
            "/",
            "..",
            "-x",
        ),
        *(
            "\x1b[31mred",
            "a\nb",
            "a\x00b",
            "<script>",
            "'; DROP TABLE x",
            "é" * 10,
            "~",
            "a/b\u202ec",
            "{a}",
        ),
        *("hf_" + "a" * 34, "sk-" + "b" * 40, "org/hf_" + "c" * 34, "0" * 40, "ghp_" + "d" * 36, "/a/" + "x" * 200),
        *("https://user:secret@example.com/model", "models--" + "x" * 200 + "--y"),
    ],
)
def test_what_may_be_no_name_is_refused(value: str) -> None:
    assert model_name(value) is None


def test_whatever_the_arguments_are_what_comes_out_is_a_short_plain_name() -> None:
    rng = random.Random("arguments")  # noqa: S311 - no secret
    letters = string.printable + "é\x1b\u202e\udcff/=:@"
    words = [
        "vllm",
        "serve",
        "--model",
        "--model=",
        "-m",
        "python",
        "--model_args",
        "pretrained=",
        "lm_eval",
        "~/",
        "models--",
    ]
    for _ in range(20_000):
        line = [
            rng.choice(words) + ("".join(rng.choices(letters, k=rng.choice((0, 0, 3, 120)))))
            for _ in range(rng.randint(0, 6))
        ]
        model = served(line).model
        assert model is None or (model.isascii() and model.isprintable() and 0 < len(model) <= LONGEST_LABEL)
        assert model is None or not set(model) & set(" =:@<>'\"")


def write(root: Path, **processes: tuple[str, int, int]) -> ProcFs:
    """Write processes by pid: arguments, parent, user."""
    for name, (line, parent, uid) in processes.items():
        folder = root / name[1:]
        folder.mkdir(parents=True)
        (folder / "cmdline").write_bytes(line.replace(" ", "\0").encode() + b"\0")
        (folder / "stat").write_text(f"{name[1:]} (a ) b) S {parent} {'1 ' * 17}77 1\n")
        (folder / "status").write_text(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    return ProcFs(root)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pids whose arguments were read."""
    pids: list[int] = []

    def read(root: Path, pid: int) -> list[str] | None:
        pids.append(pid)
        return read_arguments(root, pid)

    monkeypatch.setattr(served_models, "read_arguments", read)
    return pids


def test_an_engine_is_named_by_the_server_that_started_it_and_each_is_looked_at_once(
    tmp_path: Path, looked: list[int]
) -> None:
    tree = write(
        tmp_path,
        p9=("VLLM::EngineCore", 8, 1000),
        p8=("python3 /bin/vllm serve org/qwen", 7, 1000),
        p7=("bash", 1, 1000),
    )
    models = ServedModels(tree)
    for _ in range(5):
        assert models.work(9, 77, "VLLM::EngineCor", 1000) == ("vLLM", "org/qwen")
    assert looked == [9, 8]
    assert models.work(9, 78, "VLLM::EngineCor", 1000) == ("vLLM", "org/qwen"), "another process of that pid"
    assert models.work(9, 78, "bash", 1000) == ("vLLM", "org/qwen"), "one that began another program"
    assert looked == [9, 8] * 3


def test_no_further_ancestor_and_none_of_another_user_is_looked_at(tmp_path: Path, looked: list[int]) -> None:
    processes = {f"p{pid}": ("sh", pid - 1, 1000) for pid in range(2, 10)}
    far = write(tmp_path / "far", **processes, p1=("vllm serve a/b", 0, 1000))
    assert ServedModels(far).work(9, 1, "sh", 1000) == (None, None)
    assert looked == [9, 8, 7, 6]
    assert len(looked) == 1 + MOST_ANCESTORS
    looked.clear()
    other = write(tmp_path / "other", p9=("sh", 8, 1000), p8=("vllm serve their/model", 1, 1001))
    assert ServedModels(other).work(9, 1, "sh", 1000) == (None, None)
    assert looked == [9]
    looked.clear()
    first = write(tmp_path / "first", p9=("sh", 0, 1000))
    assert ServedModels(first).work(9, 1, "sh", 1000) == (None, None)
    gone = write(tmp_path / "gone")
    assert ServedModels(gone).work(9, 1, "sh", 1000) == (None, None)
    unknown = write(tmp_path / "unknown", p9=("sh", 8, 1000), p8=("vllm serve a/b", 1, 1000))
    assert ServedModels(unknown).work(9, 1, "sh", None) == (None, None)
    assert looked == [9] * 3


def test_arguments_are_read_as_the_kernel_has_them_and_a_cut_one_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cmdline").write_bytes(b"vllm\0serve\0org/m\xff\0")
    assert read_arguments(tmp_path, 7) == ["vllm", "serve", "org/m\ufffd"]
    assert served(read_arguments(tmp_path, 7) or ()) == (None, None)
    (tmp_path / "7/cmdline").write_bytes(b"vllm\0serve\0" + b"x" * 20_000)
    assert read_arguments(tmp_path, 7) == ["vllm", "serve"]
    (tmp_path / "7/cmdline").write_bytes(b"")
    assert read_arguments(tmp_path, 7) is None
    assert read_arguments(tmp_path, 8) is None
