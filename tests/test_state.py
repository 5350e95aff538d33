"""Saved states: plain data, bit for bit, that loads without running anything."""

import json
import math
import os
import pickle
import zipfile
from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_trace import same

from workbench.core.trace import load_state, save_state


@dataclass
class Everything:
    """One field of every kind that a state may hold."""

    round: int
    doubles: np.ndarray
    singles: np.ndarray
    codes: np.ndarray
    flags: np.ndarray
    empty: np.ndarray
    scalar: np.ndarray
    fortran: np.ndarray
    number: float
    infinite: float
    undefined: float
    numpy_number: float
    yes: bool
    text: str
    nothing: None
    rng: np.random.Generator
    second_rng: np.random.Generator


def everything():
    draw = np.random.default_rng(5)
    draw.normal(size=7)
    draw.integers(10, dtype=np.int32)  # leaves half a word in the generator's buffer
    return Everything(
        round=2**70,
        doubles=np.array([[0.1, -0.0], [math.nan, math.inf]]),
        singles=np.arange(3, dtype=np.float32) / 3,
        codes=np.array([-1, 2], dtype=np.int8),
        flags=np.array([[True], [False]]),
        empty=np.zeros((0, 4)),
        scalar=np.array(3.5),
        fortran=np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        number=0.1 + 0.2,
        infinite=-math.inf,
        undefined=math.nan,
        numpy_number=np.float64(1 / 3),
        yes=True,
        text="naïve ∂",
        nothing=None,
        rng=draw,
        second_rng=np.random.default_rng(6),
    )


def test_a_state_survives_the_disk_bit_for_bit(tmp_path):
    path, saved = tmp_path / "s.npz", everything()
    before = saved.rng.bit_generator.state
    save_state(path, saved)
    assert saved.rng.bit_generator.state == before  # saving draws nothing
    loaded = load_state(path, Everything)
    for name, value in vars(saved).items():
        other = getattr(loaded, name)
        if isinstance(value, np.ndarray):
            assert other.dtype == value.dtype and other.shape == value.shape
            assert other.tobytes() == value.tobytes(), name
            assert other.flags.f_contiguous == value.flags.f_contiguous, name
        elif isinstance(value, np.random.Generator):
            draws = value.integers(10, size=9, dtype=np.int32), value.normal(size=9)
            again = other.integers(10, size=9, dtype=np.int32), other.normal(size=9)
            assert all(np.array_equal(a, b) for a, b in zip(draws, again))
        else:
            assert same(other, value) and type(other) is not np.ndarray, name
    assert os.listdir(tmp_path) == ["s.npz"]


@dataclass
class Single:
    field: object


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        {"a": 1},
        object(),
        np.array([None]),
        np.array([(1, None)], dtype=[("a", int), ("b", object)]),
        np.random.Generator(np.random.MT19937()),
    ],
    ids=["list", "dict", "object", "object array", "object field", "MT19937"],
)
def test_a_field_that_is_not_plain_data_is_refused_by_name(tmp_path, value):
    with pytest.raises(TypeError, match=r"Single\.field"):
        save_state(tmp_path / "s.npz", Single(value))
    assert not (tmp_path / "s.npz").exists()


class Bomb:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_another_or_a_damaged_state_is_refused(tmp_path):
    path, generator = tmp_path / "s.npz", np.random.PCG64(0).state
    save_state(path, Single(1.0))
    with pytest.raises(ValueError, match="contains a Single, not a Typed"):
        load_state(path, Typed)
    older = dataclass(type("Single", (), {"__annotations__": {"field": float, "added": int}}))
    with pytest.raises(ValueError, match=r"\['added'\] do not match"):
        load_state(path, older)
    np.savez(path, field=np.zeros(3))
    with pytest.raises(ValueError, match=r"s\.npz: .* does not contain a state"):
        load_state(path, Single)
    np.save(tmp_path / "array.npy", np.zeros(3))
    with zipfile.ZipFile(tmp_path / "text.zip", "w") as archive:
        archive.writestr(".npy", "{}")
    (tmp_path / "text").write_bytes(b"\x80")
    for name in ("array.npy", "text.zip", "text"):
        with pytest.raises(ValueError, match="not a state"):
            load_state(tmp_path / name, Single)
    damage = [{"bit_generator": "MT19937"}, {"state": {}}, {"state": {"state": -1, "inc": 1}}]
    for damaged in ("none", *(generator | d for d in [*damage, {"has_uint32": 2**70}])):
        text = json.dumps({"state": "Single", "plain": {"field": {"generator": damaged}}})
        np.savez(path, **{"": np.array(text)})
        with pytest.raises(ValueError, match=r"s\.npz: not a state"):
            load_state(path, Single)


def test_no_pickle_is_ever_opened(tmp_path):
    inside, plain = tmp_path / "inside.npz", tmp_path / "plain.npz"
    mark = str(tmp_path / "exploded")
    text = json.dumps({"state": "Single", "plain": {}})
    np.savez(inside, **{"field": np.array([Bomb(mark)], dtype=object), "": np.array(text)})
    plain.write_bytes(pickle.dumps(Bomb(mark)))
    for path in (inside, plain):
        with pytest.raises(ValueError, match=r"[Pp]ickle"):
            load_state(path, Single)
    assert not os.path.exists(mark)


@dataclass
class Typed:
    numbers: np.ndarray
    count: int
    size: float
    name: str | None
    rng: np.random.Generator


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("numbers", 1.0),
        ("numbers", np.array(["a"])),
        ("numbers", np.array([(1, 2.0)], dtype=[("a", int), ("b", float)])),
        ("numbers", np.zeros(2, ">f8")),
        ("count", 1.5),
        ("count", True),
        ("count", np.array([1])),
        ("size", "1"),
        ("size", None),
        ("name", 1),
        ("rng", 1),
    ],
)
def test_a_field_of_another_type_is_refused(name, value, tmp_path):
    sound = Typed(np.zeros(2), 1, 2, None, np.random.default_rng(0))
    save_state(tmp_path / "s.npz", sound)
    assert load_state(tmp_path / "s.npz", Typed).size == 2
    save_state(tmp_path / "s.npz", replace(sound, **{name: value}))
    with pytest.raises(ValueError, match=rf"s\.npz: {name} does not have the type of a Typed"):
        load_state(tmp_path / "s.npz", Typed)
