"""Fitted heads as one safetensors file, whose header holds as JSON all that is not a tensor; never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

import clovecal
from clovecal._checks import AnyArray
from clovecal.errors import InputError
from clovecal.files import Defect, check_format, check_writable, replacing
from clovecal.training._tensors import save_tensors
from clovecal.training.head.choice import judged_as_json, judged_from_json
from clovecal.training.head.classifier import CloveClassifier
from clovecal.training.head.inputs import check_parameters
from clovecal.training.head.network import HeadNetwork, check_linear_head

FORMAT = "clovecal head"
VERSION = 2  # 1 had one network, chosen by a criterion
_KEY = "clovecal"
_TEXT = "text"  # numpy's name of the dtype depends on the longest label
_NETWORK = "network."
_OTHER = "other."  # the head for the other kind of new domains, where it is another one
_LINEAR = ("linear_head.coef", "linear_head.intercept")


def save(head: CloveClassifier, path: str | Path, *, overwrite: bool) -> None:
    """Write a fitted head; the file appears whole or not at all."""
    path = check_writable(path, overwrite=overwrite)
    tensors = {f"{_NETWORK}{name}": tensor.cpu().contiguous() for name, tensor in head.network_.state_dict().items()}
    for name, network in head.networks_.items():
        if name != head.chosen_:
            tensors |= {f"{_OTHER}{key}": tensor.cpu().contiguous() for key, tensor in network.state_dict().items()}
    tensors |= {"mean": torch.as_tensor(head.mean_), "scale": torch.as_tensor(head.scale_)}
    parameters = head.get_params(deep=False)
    given = parameters.pop("linear_head")
    if given is not None:
        outputs = head.network_.mlp.n_outputs
        linear = check_linear_head(given, n_features=head.n_features_in_, n_outputs=outputs)
        tensors |= dict(zip(_LINEAR, map(torch.as_tensor, linear), strict=True))
    parameters["device"] = None if head.device is None else str(head.device)
    if not isinstance(head.random_state, int):
        parameters["random_state"] = None  # a generator's state is spent
    names = getattr(head, "feature_names_in_", None)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "clovecal": clovecal.__version__,
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "classes": head.classes_.tolist(),
        "classes_are": _TEXT if head.classes_.dtype.kind in "UTO" else head.classes_.dtype.str,
        "feature_names": None if names is None else names.tolist(),
        "penalty": head.penalty_,
        "message": head.message_,
        "chosen": head.chosen_,
        **judged_as_json(head.candidates_, head.choices_, head.price_),
    }
    try:
        text = json.dumps(content, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            "the head", f"cannot be saved: {error}", "use labels and parameters that are text or numbers"
        ) from None
    with replacing(path, overwrite=overwrite) as temporary:
        save_tensors(tensors, temporary, {_KEY: text})


def load_head(path: str | Path, *, device: str | torch.device | None = None) -> CloveClassifier:
    """Read a head written by `CloveClassifier.save`.

    Parameters
    ----------
    path
        The safetensors file.
    device
        Where to predict; None: a GPU if there is one.

    Returns
    -------
    CloveClassifier
        Fitted; on the same device its predictions equal the saved one's exactly.

    Notes
    -----
    The file is data, not code: its format, version, names and shapes are checked, and a file that fails is refused
    with the reason.

    Examples
    --------
    >>> import tempfile
    >>> X, site = np.arange(40.0)[:, None], ["A", "B"] * 20
    >>> head = CloveClassifier(hidden=(4,), objective="erm", max_steps=5).fit(X, X[:, 0] > 20, domains=site)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     head.save(f"{folder}/head.safetensors")
    ...     again = load_head(f"{folder}/head.safetensors")
    >>> bool((again.predict_proba(X) == head.predict_proba(X)).all())
    True
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"path {str(path)!r}", "does not exist", "check the name")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            content = json.loads((file.metadata() or {}).get(_KEY, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, ValueError, OSError, RecursionError) as error:
        raise InputError(f"path {str(path)!r}", f"is not readable as safetensors ({error})", "save it again") from None
    try:
        return _restored(content, tensors, device)
    except Defect as defect:
        raise InputError(f"path {str(path)!r}", f"is not a usable head: {defect}", "save it again") from None
    except (InputError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"path {str(path)!r}", f"is not a usable head ({_one_line(error)})", "save it again") from None


def _restored(content: Any, tensors: Mapping[str, torch.Tensor], device: str | torch.device | None) -> CloveClassifier:
    check_format(content, FORMAT, VERSION)
    damaged = next((name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())), None)
    if damaged is not None:
        raise Defect(f"its tensor {damaged!r} has values that are not finite")
    first = content["version"] == 1
    head = _with_parameters(_of_version_1(content["parameters"]) if first else content["parameters"], tensors)
    head.device = device
    head.classes_ = _classes(content)
    head.mean_, head.scale_ = tensors["mean"].numpy(), tensors["scale"].numpy()
    head.n_features_in_ = len(head.mean_)
    if head.mean_.shape != head.scale_.shape or head.mean_.ndim != 1 or not (head.scale_ > 0).all():
        raise Defect("its means and scales do not belong together")
    if content["feature_names"] is not None:
        head.feature_names_in_ = np.array(content["feature_names"], dtype=object)
    head.penalty_, head.message_ = float(content["penalty"]), str(content["message"])
    head.network_ = _network(head, tensors, _NETWORK)
    head.candidates_, head.choices_, head.price_ = (), {}, None
    head.chosen_ = head.objective if first else str(content["chosen"])
    head.networks_ = {head.chosen_: head.network_}
    if not first:
        _with_choices(head, content, tensors)
    return head


def _network(head: CloveClassifier, tensors: Mapping[str, torch.Tensor], prefix: str) -> HeadNetwork:
    network = head._network()
    network.load_state_dict(
        {name.removeprefix(prefix): one for name, one in tensors.items() if name.startswith(prefix)}
    )
    network.eval()
    return network


def _with_choices(head: CloveClassifier, content: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Restore both choices and their price; a member of a sweep has neither."""
    head.candidates_, head.choices_, head.price_ = judged_from_json(content)
    choices = head.choices_
    if choices and head.chosen_ != choices[head.prepare_for]:
        raise Defect("the head that it predicts with is not the one that was chosen")
    other = {*choices.values()} - {head.chosen_}
    if other:
        head.networks_ = {head.chosen_: head.network_, other.pop(): _network(head, tensors, _OTHER)}


def _of_version_1(parameters: Any) -> Any:
    """Return the parameters that a head has now, of those that it had."""
    if not isinstance(parameters, dict) or not {"criterion", "accuracy_tolerance"} <= set(parameters):
        raise Defect("its parameters are not those of a head")
    kept = {name: value for name, value in parameters.items() if name not in ("criterion", "accuracy_tolerance")}
    return {**kept, "prepare_for": "unstable"}


def _with_parameters(parameters: Any, tensors: Mapping[str, torch.Tensor]) -> CloveClassifier:
    head = CloveClassifier()
    if not isinstance(parameters, dict) or set(parameters) != set(head.get_params(deep=False)) - {"linear_head"}:
        raise Defect("its parameters are not those of a head")
    # JSON has no tuples, and scikit-learn's clone wants parameters as they were given.
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}
    if _LINEAR[0] in tensors:
        given["linear_head"] = tuple(tensors[name].numpy() for name in _LINEAR)
    head.set_params(**given)
    check_parameters(head)
    return head


def _classes(content: Mapping[str, Any]) -> AnyArray:
    listed, kind = content["classes"], content["classes_are"]
    if not isinstance(listed, list) or len(set(listed)) != len(listed) or len(listed) < 2:
        raise Defect("its classes are not a list of two or more different labels")
    classes = np.array(listed) if kind == _TEXT else np.array(listed, dtype=np.dtype(kind))
    if classes.dtype.kind not in "Ubiuf" or (classes.dtype.kind == "U") != (kind == _TEXT):
        raise Defect(f"its classes are of the kind {kind!r}")
    return classes


def _plain(value: Any) -> Any:
    """Return numpy's arrays and numbers as Python's."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(line.strip() for line in lines[:2]).rstrip(".")
