"""Which model a process serves, by arguments that may be anybody's and anything."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest

from gua.core.workloads import LONGEST_LABEL
from gua.identity.served_models import MOST_ANCESTORS, ServedModels, model_name, served
from gua.procfs.command_line import CommandLines


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


class Tree:
    """Processes by pid: arguments, parent, user; and who was looked at."""

    def __init__(self, **processes: tuple[str, int, int]) -> None:
        self.processes = {int(name[1:]): of for name, of in processes.items()}
        self.has_source: list[int] = []

    def arguments(self, pid: int) -> list[str] | None:
        self.has_source.append(pid)
        return self.processes[pid][0].split() if pid in self.processes else None

    def parent(self, pid: int) -> int | None:
        return self.processes[pid][1] if pid in self.processes else None

    def uid(self, pid: int) -> int | None:
        return self.processes[pid][2] if pid in self.processes else None


def test_an_engine_is_named_by_the_server_that_started_it_and_each_is_looked_at_once() -> None:
    tree = Tree(
        p9=("VLLM::EngineCore", 8, 1000), p8=("python3 /bin/vllm serve org/qwen", 7, 1000), p7=("bash", 1, 1000)
    )
    models = ServedModels(tree, tree.uid)
    for _ in range(5):
        assert models.work(9, 77, "VLLM::EngineCor", 1000) == ("vLLM", "org/qwen")
    assert tree.has_source == [9, 8]
    assert models.work(9, 78, "VLLM::EngineCor", 1000) == ("vLLM", "org/qwen"), "another process of that pid"
    assert models.work(9, 78, "bash", 1000) == ("vLLM", "org/qwen"), "one that began another program"
    assert tree.has_source == [9, 8] * 3


def test_no_further_ancestor_and_none_of_another_user_is_looked_at() -> None:
    far = Tree(**{f"p{pid}": ("sh", pid - 1, 1000) for pid in range(2, 10)}, p1=("vllm serve a/b", 0, 1000))
    assert ServedModels(far, far.uid).work(9, 1, "sh", 1000) == (None, None)
    assert far.has_source == [9, 8, 7, 6]
    assert len(far.has_source) == 1 + MOST_ANCESTORS
    other = Tree(p9=("sh", 8, 1000), p8=("vllm serve their/model", 1, 1001))
    assert ServedModels(other, other.uid).work(9, 1, "sh", 1000) == (None, None)
    assert other.has_source == [9]
    other_tree = Tree(p9=("sh", 8, 1000), p8=("vllm serve a/b", 1, 1000))
    assert ServedModels(other_tree, other_tree.uid).work(9, 1, "sh", None) == (None, None)
    assert other_tree.has_source == [9]


def test_arguments_are_read_as_the_kernel_has_them_and_a_cut_one_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    lines = CommandLines(tmp_path)
    (tmp_path / "7/cmdline").write_bytes(b"vllm\0serve\0org/m\xff\0")
    (tmp_path / "7/stat").write_text("7 (a ) b) S 3 1 1")
    assert lines.arguments(7) == ["vllm", "serve", "org/m\ufffd"]
    assert served(lines.arguments(7) or ()) == (None, None)
    assert lines.parent(7) == 3
    (tmp_path / "7/cmdline").write_bytes(b"vllm\0serve\0" + b"x" * 20_000)
    assert lines.arguments(7) == ["vllm", "serve"]
    (tmp_path / "7/cmdline").write_bytes(b"")
    assert lines.arguments(7) is None
    assert (lines.arguments(8), lines.parent(8)) == (None, None)
    (tmp_path / "7/stat").write_text("7 (init) S 0 1 1")
    assert lines.parent(7) is None
