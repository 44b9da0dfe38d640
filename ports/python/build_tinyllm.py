"""Builds the wheel: pip calls the functions at the end (PEP 517). Needs Python and a C compiler, nothing else.

    CC               the compiler; cc, gcc or clang without it
    TINYLLM_CFLAGS   flags that are added, such as "-O3 -DTINY_NO_AVX512"
    TINYLLM_HEADERS  a folder with tinyllm.h and tinygnn.h, instead of those of this checkout
    TINYLLM_JOBS     compilers at the same time; as many as there are processors without it
"""
import base64
import hashlib
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

import read_header

HERE = pathlib.Path(__file__).resolve().parent
PARTS = {"TINYLLM": 4, "TINYGNN": 2}
# Every operation of the table and the conformance kit. The rest of TINYLLM_TOOLS, what makes models, is left out.
FEATURES = ["TINYLLM_LAB", "TINYGNN_LAB", "TINY_WITH_CONFORM", "TINY_WITH_TRANSFORM"]
FLAGS = ["-std=c99", "-O1", "-fPIC", "-pthread", "-DTINY_PTHREAD"]
LINK = ["-shared", "-pthread", "-lm"]


def headers():
    """the folder of tinyllm.h and tinygnn.h: a source distribution has its own, a checkout those at its root"""
    for folder in (os.environ.get("TINYLLM_HEADERS"), HERE / "include", HERE.parent.parent):
        if folder and all((pathlib.Path(folder) / name).is_file() for name in ("tinyllm.h", "tinygnn.h")):
            return pathlib.Path(folder).resolve()
    raise SystemExit("tinyllm.h and tinygnn.h are not here: TINYLLM_HEADERS names the folder that has them")


def version():
    text = (headers() / "tinyllm.h").read_text(encoding="utf-8")
    parts = ("MAJOR", "MINOR", "PATCH")
    return ".".join(re.search(rf"#define TINY_VERSION_{part} (\d+)", text).group(1) for part in parts)


def compiler():
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise SystemExit("there is no C compiler: install one (on Debian: apt-get install gcc libc6-dev), or name it by CC")


def compile_library(to):
    """Writes _tinyllm.so and _declared.py into the folder to."""
    cc, include, extra = compiler(), str(headers()), shlex.split(os.environ.get("TINYLLM_CFLAGS", ""))
    flags = [*FLAGS, *(f"-D{name}" for name in FEATURES), "-I" + include, *extra]
    declared = read_header.Header(read_header.preprocess(cc, extra, include))
    sources = {"declared": declared.c()}
    for wing, n in PARTS.items():
        for k in range(1, n + 1):
            sources[f"{wing.lower()}-{k}"] = (
                f"#define {wing}_IMPLEMENTATION\n#define {wing}_PARTS {n}\n#define {wing}_PART {k}\n"
                f'#include "{wing.lower()}.h"\n')

    def compile_one(name):
        source, target = os.path.join(folder, name + ".c"), os.path.join(folder, name + ".o")
        pathlib.Path(source).write_text(sources[name], encoding="utf-8")
        subprocess.run([*cc, *flags, "-c", source, "-o", target], check=True)
        return target

    with tempfile.TemporaryDirectory() as folder:
        jobs = int(os.environ.get("TINYLLM_JOBS") or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
                   else os.cpu_count() or 1)
        with ThreadPoolExecutor(jobs) as pool:
            objects = list(pool.map(compile_one, sources))
        subprocess.run([*cc, *objects, "-o", os.path.join(to, "_tinyllm.so"), *LINK, *extra], check=True)
    pathlib.Path(to, "_declared.py").write_text(declared.python(), encoding="utf-8")


def metadata():
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    return (f"Metadata-Version: 2.1\nName: tinyllm\nVersion: {version()}\n"
            "Summary: The operations, models and graphs of tinyllm.h on numpy arrays, and a kit that checks kernels\n"
            "License: MIT\nRequires-Python: >=3.9\nRequires-Dist: numpy\nProvides-Extra: sparse\n"
            'Requires-Dist: scipy; extra == "sparse"\n'
            f"Description-Content-Type: text/markdown\n\n{readme}")


def tag():
    return "py3-none-" + re.sub(r"[-. ]", "_", sysconfig.get_platform())


def write_info(folder):
    """the folder NAME.dist-info, all but its list of files"""
    info = pathlib.Path(folder) / f"tinyllm-{version()}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata(), encoding="utf-8")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: build_tinyllm\nRoot-Is-Purelib: false\nTag: {tag()}\n")
    for licence in (HERE / "LICENSE", HERE.parent.parent / "LICENSE"):
        if licence.is_file():
            shutil.copy(licence, info / "LICENSE")
            break
    return info.name


def zip_folder(folder, path):
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(pathlib.Path(folder).rglob("*")):
            if file.is_file():
                name, data = file.relative_to(folder).as_posix(), file.read_bytes()
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                record.append(f"{name},sha256={digest},{len(data)}")
                archive.writestr(name, data)
                if name.endswith("/WHEEL"):
                    own = name.replace("WHEEL", "RECORD")
        archive.writestr(own, "\n".join([*record, own + ",,", ""]))


# ---- what pip calls

def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return write_info(metadata_directory)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"tinyllm-{version()}-{tag()}.whl"
    with tempfile.TemporaryDirectory() as folder:
        package = os.path.join(folder, "tinyllm")
        shutil.copytree(HERE / "tinyllm", package, ignore=shutil.ignore_patterns("__pycache__", "_declared.py", "*.so"))
        compile_library(package)
        write_info(folder)
        zip_folder(folder, os.path.join(wheel_directory, name))
    return name


def build_sdist(sdist_directory, config_settings=None):
    base = f"tinyllm-{version()}"
    files = {"include/tinyllm.h": headers() / "tinyllm.h", "include/tinygnn.h": headers() / "tinygnn.h"}
    licence = HERE / "LICENSE"
    files["LICENSE"] = licence if licence.is_file() else HERE.parent.parent / "LICENSE"
    for name in ("pyproject.toml", "build_tinyllm.py", "read_header.py", "README.md"):
        files[name] = HERE / name
    for folder in ("tinyllm", "tests"):
        files.update({f"{folder}/{p.name}": p for p in (HERE / folder).glob("*.py") if p.name != "_declared.py"})
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as archive:
        for name, path in sorted(files.items()):
            archive.add(path, f"{base}/{name}")
        text = metadata().encode()
        info = tarfile.TarInfo(f"{base}/PKG-INFO")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return base + ".tar.gz"
