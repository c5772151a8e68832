"""Packages that are really installed: the files of a wheel on ``sys.path``, as an installer would put them there."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from textwrap import dedent


class Site:
    """A folder on ``sys.path`` into which packages are installed as an installer would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: list[str] = []

    def install(self, distribution: str, module: str, source: str, entry_points: str, zipped: bool = False) -> None:
        info = f"{distribution.replace('-', '_')}-1.0.dist-info"
        files = {
            f"{module}.py": dedent(source),
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": f"[chaoscore.capabilities]\n{entry_points}\n",
            f"{info}/RECORD": f"{module}.py,,\n{info}/METADATA,,\n{info}/RECORD,,\n",
        }
        self.modules.append(module)
        if zipped:  # Python imports straight from a wheel
            wheel = self.folder / f"{distribution.replace('-', '_')}-1.0-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                for name, text in files.items():
                    archive.writestr(name, text)
            sys.path.insert(0, str(wheel))
            return
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
