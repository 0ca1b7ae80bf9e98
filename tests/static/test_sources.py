"""Where the files of a traceback are read: folders, wheels and source archives that somebody names."""

from __future__ import annotations

import ast
import io
import tarfile
import zipfile

import pytest

from samedevice.errors import UsageError
from samedevice.static.sources import LARGEST, Sources

CODE = "def forward(x, mask):\n    return x + mask\n"


def text_of(trees):
    return [ast.unparse(tree) for tree in trees]


@pytest.fixture(params=["folder", "src-folder", "wheel", "sdist", "zip"])
def place(request, tmp_path):
    """The same package in each layout in which a library is handed on."""
    files = {"pkg_of_nobody/layers.py": CODE, "pkg_of_nobody/broken.py": "def ("}
    if request.param.endswith("folder"):
        root = tmp_path / ("src" if request.param == "src-folder" else ".")
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, "utf-8")
        return tmp_path
    if request.param == "sdist":
        path = tmp_path / "pkg-1.0.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(f"pkg-1.0/src/{name}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        return path
    path = tmp_path / ("pkg-1.0-py3-none-any.whl" if request.param == "wheel" else "pkg-main.zip")
    top = "" if request.param == "wheel" else "pkg-main/"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{top}{name}", text)
    return path


@pytest.mark.parametrize(
    "file",
    ["pkg_of_nobody/layers.py", "/srv/app/pkg_of_nobody/layers.py", "C:\\x\\pkg_of_nobody\\layers.py"],
)
def test_a_file_is_found_by_the_end_of_its_path(place, file):
    assert text_of(Sources([place]).trees(file)) == [ast.unparse(ast.parse(CODE))]


@pytest.mark.parametrize(
    "file",
    ["pkg_of_nobody/broken.py", "pkg_of_nobody/other.py", "../pkg_of_nobody/layers.py", "notes.txt", None],
)
def test_what_is_not_there_or_no_python_is_nothing(place, file):
    assert Sources([place]).trees(file) == ()


def test_the_first_place_comes_first_and_all_count(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "train_of_nobody.py").write_text(f"{name} = 1\n", "utf-8")
    found = Sources([tmp_path / "b", tmp_path / "a"]).trees("/else/train_of_nobody.py")
    assert text_of(found) == ["b = 1", "a = 1"]


def test_an_archive_is_never_unpacked_and_no_large_file_is_read(tmp_path):
    path = tmp_path / "odd.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../evil_of_nobody.py", CODE)
        archive.writestr("huge_of_nobody.py", "#" * (LARGEST + 1))
    sources = Sources([path])
    assert sources.trees("evil_of_nobody.py") == sources.trees("huge_of_nobody.py") == ()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["odd.whl"]


@pytest.mark.parametrize("name", ["missing", "notes.md", "broken.whl", "broken.tar.gz"])
def test_a_place_that_cannot_be_read_is_wrong_usage(tmp_path, name):
    if "." in name:
        (tmp_path / name).write_text("no archive", "utf-8")
    with pytest.raises(UsageError):
        Sources([tmp_path / name])
