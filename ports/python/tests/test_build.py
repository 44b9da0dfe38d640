"""The build: what is read from the headers, and what the archives hold. Nothing is compiled here."""
import base64
import csv
import hashlib
import io
import pathlib
import sys
import tarfile
import zipfile

import pytest

import tinyllm

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))
import build_tinyllm  # noqa: E402
import read_header  # noqa: E402

sys.path.remove(str(HERE))


def test_version():
    assert build_tinyllm.version() == tinyllm.__version__


def test_source_distribution(tmp_path):
    name = build_tinyllm.build_sdist(str(tmp_path))
    base = f"tinyllm-{tinyllm.__version__}"
    assert name == base + ".tar.gz"
    with tarfile.open(tmp_path / name) as archive:
        files = set(archive.getnames())
        assert {f"{base}/{f}" for f in (
            "include/tinyllm.h", "include/tinygnn.h", "LICENSE", "README.md", "PKG-INFO", "pyproject.toml",
            "build_tinyllm.py", "read_header.py", "tinyllm/__init__.py", "tests/test_ops.py")} <= files
        assert not any(f.endswith((".so", "_declared.py")) for f in files)
        header = archive.extractfile(f"{base}/include/tinyllm.h").read()
        assert header == (build_tinyllm.headers() / "tinyllm.h").read_bytes()


def test_wheel(tmp_path, monkeypatch):
    monkeypatch.setattr(build_tinyllm, "compile_library", lambda to: pathlib.Path(to, "_tinyllm.so").write_bytes(b"so"))
    name = build_tinyllm.build_wheel(str(tmp_path))
    assert name.startswith(f"tinyllm-{tinyllm.__version__}-py3-none-")
    with zipfile.ZipFile(tmp_path / name) as archive:
        files = {f: archive.read(f) for f in archive.namelist()}
    info = f"tinyllm-{tinyllm.__version__}.dist-info/"
    assert {"tinyllm/__init__.py", "tinyllm/_tinyllm.so", info + "METADATA", info + "LICENSE"} <= set(files)
    assert b"Requires-Dist: numpy\n" in files[info + "METADATA"]
    rows = list(csv.reader(io.StringIO(files[info + "RECORD"].decode())))
    assert sorted(row[0] for row in rows) == sorted(files)
    for file, digest, size in rows[:-1]:
        made = base64.urlsafe_b64encode(hashlib.sha256(files[file]).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == ("sha256=" + made, len(files[file]))


def test_headers_that_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(build_tinyllm, "HERE", tmp_path)
    monkeypatch.delenv("TINYLLM_HEADERS", raising=False)
    with pytest.raises(SystemExit, match="TINYLLM_HEADERS"):
        build_tinyllm.headers()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(SystemExit, match="no C compiler"):
        build_tinyllm.compiler()


def test_reading_c():
    h = read_header.Header("""
        typedef ptrdiff_t tiny_idx; typedef struct tiny_ctx tiny_ctx;
        enum { A = 3, B, C = 1 << 4, D = C | 1u, PY_E = 0x10 };
        typedef enum color { RED, GREEN } color;
        typedef struct s { const char *name, *other; int a[2], b; unsigned flags; tiny_idx n[A][2]; color c;
            int (*f)(void *user, const char *text); const struct s *next; } s;
        static inline int twice(int a) { return 2 * a; }
        int tllm_plain(void);
        const char *tllm_more(tiny_ctx *ctx, const float x[4], int (*f)(void *), unsigned n, color);
    """)
    assert h.constants == {"A": 3, "B": 4, "C": 16, "D": 17, "E": 16, "RED": 0, "GREEN": 1}
    assert [(f, str(t).replace(" ", ""), n) for f, t, n in h.structs["s"]] == [
        ("name", "constchar*", 0), ("other", "constchar*", 0), ("a", "int", 2), ("b", "int", 0),
        ("flags", "unsigned", 0), ("n", "tiny_idx", 6), ("c", "color", 0),
        ("f", "('int',['void*','constchar*'])", 0), ("next", "conststructs*", 0)]
    assert h.functions["tllm_plain"] == ("int", []) and list(h.functions) == ["tllm_plain", "tllm_more"]
    assert [n for n, _, _ in h.functions["tllm_more"][1]] == ["ctx", "x", "f", "n", ""]
