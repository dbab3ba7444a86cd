"""Whose code a file is goes by where packages are installed, wherever torch is."""

import subprocess
import sys
from pathlib import Path


def test_torchs_own_folder_is_machinery_wherever_it_is(tmp_path: Path) -> None:
    script = f"""
import site, sysconfig, torch
site.getsitepackages, site.getusersitepackages, sysconfig.get_path = list, lambda: "/nowhere", lambda name: "/nowhere"
torch.__file__ = "{tmp_path}/torch/__init__.py"
from truestep.probe.owners import OWNERS
print(OWNERS["{tmp_path}/torch/_ops.py"], OWNERS["{tmp_path}/_ops.py"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "machinery user\n"
