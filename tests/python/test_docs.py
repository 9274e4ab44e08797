"""The Python in README.md and docs/python.md does what is said there."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(
    os.environ.get("PREFIX_ROUTER_SOURCE", pathlib.Path(__file__).parent.parent.parent)
)


def blocks(file, language):
    text = (PROJECT / file).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_the_example_of_the_readme_prints_what_it_says():
    (program,) = blocks("README.md", "python")
    assert len(program.splitlines()) <= 20
    result = run(program)
    assert (result.returncode, result.stderr) == (0, "")
    said = re.findall(r"# prints: (.*)", program)
    assert said and result.stdout.splitlines() == said


def test_the_examples_of_the_guide_run_in_their_order():
    programs = blocks("docs/python.md", "python")
    assert len(programs) >= 6
    result = run("\n".join(programs))
    assert (result.returncode, result.stderr) == (0, "")
    assert "10.0.0.2:8000 0 DRAINING 0" in result.stdout


@pytest.mark.parametrize("file", ["docs/python.md", "docs/command_line.md", "README.md"])
def test_links_lead_somewhere(file):
    for target in re.findall(r"\]\(([^)#]+)\)", (PROJECT / file).read_text()):
        if not target.startswith("http"):
            assert ((PROJECT / file).parent / target).exists(), target


def test_figures_in_messages_of_the_guide_are_those_of_the_package():
    import prefixrouter

    guide = (PROJECT / "docs/python.md").read_text()
    router = prefixrouter.PrefixRouter()
    router.add_instance("a")
    with pytest.raises(ValueError) as caught:
        router.route([0] * 7 + [-1])
    assert f"`{caught.value}`" in guide
