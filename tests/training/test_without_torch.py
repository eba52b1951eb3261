"""Without torch, what needs it says so in one sentence that names the extra, and what does not works."""

from __future__ import annotations

import json
import subprocess
import sys

import clovecal.training

RUN = """
import json, sys
from importlib import import_module
from importlib.machinery import PathFinder
class WithoutTorch(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "torch" else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorch
import clovecal.training
said = {}
for name in NAMES:
    try:
        getattr(clovecal.training, name)
        said[name] = "here"
    except clovecal.InputError as error:
        said[name] = str(error)
for module in MODULES:
    try:
        import_module("clovecal.training." + module)
        said[module] = "here"
    except clovecal.InputError as error:
        said[module] = str(error)
print(json.dumps(said))
"""
MODULES = ["losses", "mlp", "data", "batch_domains", "head.classifier", "loop.fitting", "adapters"]
WITHOUT = {"OBJECTIVES", "make_objective", "register_objective"}  # the list alone, which commands show in their help


def test_every_name_that_needs_torch_says_so_in_one_sentence():
    code = RUN.replace("NAMES", repr(clovecal.training.__all__)).replace("MODULES", repr(MODULES))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = json.loads(run.stdout)
    assert {name for name, sentence in said.items() if sentence == "here"} == WITHOUT
    for name in set(said) - WITHOUT:
        package = name.partition(".")[0]  # of a module in a package, the package says it
        problem = f"clovecal.training.{package} needs the package torch"
        assert said[name] == f"{problem}; install it with pip install 'clovecal[train]'."
