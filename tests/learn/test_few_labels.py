"""A student that learns without labels first and then asks: what it asks, and what it makes of the answers."""

import numpy as np
import pytest

from sedml.errors import InputError
from sedml.learn import few_labels
from sedml.learn.few_labels import StudentClassifier
from sedml.learn.neighbours import Neighbours
from sedml.learn.queries import Questions

ISLANDS = 4


@pytest.fixture(scope="module")
def islands():
    """Features around four directions."""
    rng = np.random.default_rng(3)
    kinds = np.repeat(np.arange(ISLANDS), 60)
    return (np.eye(ISLANDS)[kinds] + rng.normal(0, 0.12, (len(kinds), ISLANDS))).astype(np.float32), kinds


def test_coordinates_part_what_is_not_joined(islands):
    features, kinds = islands
    seen = Neighbours(features).coordinates(ISLANDS)
    likeness = seen @ seen.T
    same = kinds[:, None] == kinds
    assert likeness[same].mean() > 0.9
    assert abs(likeness[~same].mean()) < 0.1


def test_a_label_spreads_over_its_island_only(islands):
    features, kinds = islands
    shares = Neighbours(features).spread(np.array([5, 70, 130, 190]), np.array([0, 1, 2, -1]), 3)
    told = kinds < 3
    assert (shares[told].argmax(1) == kinds[told]).all()
    np.testing.assert_allclose(shares[told].sum(1), 1, rtol=1e-4)


def test_every_island_is_asked_about_once(islands):
    features, kinds = islands
    assert sorted(kinds[Questions(features, ISLANDS).choose(ISLANDS)]) == list(range(ISLANDS))


def test_nothing_is_asked_twice_and_the_same_seed_asks_the_same(islands):
    features, kinds = islands
    rounds = []
    for _ in range(2):
        questions = Questions(features, ISLANDS, seed=4)
        for count in (100, 100, 40):
            chosen = questions.choose(count)
            questions.told(chosen, np.where(chosen % 5, kinds[chosen], -1))
        rounds.append(questions.asked)
        with pytest.raises(InputError, match="about 0 samples"):
            questions.choose(1)
    assert sorted(rounds[0]) == list(range(len(features)))
    assert np.array_equal(*rounds)


def test_the_second_round_is_about_what_labels_leave_in_doubt(islands):
    """Labels reach the samples between two islands from both."""
    rng = np.random.default_rng(1)
    bridge = np.zeros((30, ISLANDS))
    bridge[:, :2] = 1
    features = np.concatenate([islands[0][:120], bridge + rng.normal(0, 0.12, bridge.shape)])
    questions = Questions(features, 2)
    questions.told(np.array([3, 63]), np.array([0, 1]))
    assert (questions.choose(5) >= 120).sum() >= 3


def test_how_frequent_classes_are_is_taken_from_labels(islands):
    features, kinds = islands
    questions = Questions(features, 2)
    chosen = questions.choose(8)
    questions.told(chosen, (kinds[chosen] == 0).astype(np.int64))
    np.testing.assert_allclose(questions.shares(), [0.75, 0.25], atol=0.05)


def test_alike_samples_are_still_asked_about():
    assert len(set(Questions(np.ones((9, 3)), 2).choose(6))) == 6


def test_a_student_of_features(islands):
    features, kinds = islands
    asked = []

    def ask(chosen):
        asked.extend(chosen)
        return kinds[chosen]

    student = StudentClassifier(ISLANDS).fit(features, ask, questions=9)
    assert (student.predict(features) == kinds).mean() > 0.95
    assert student.asked_.tolist() == asked
    assert np.array_equal(student.labels_, kinds[asked])


@pytest.mark.parametrize("answer", [[0], [4] * 6, [-2] * 6, [0.5] * 6, [[0] * 6]])
def test_answers_that_are_no_labels_are_refused(islands, answer):
    with pytest.raises(InputError, match="The answer to 6 questions"):
        StudentClassifier(ISLANDS).fit(islands[0], lambda _: np.array(answer), questions=9)


def test_one_class_teaches_nothing(islands):
    with pytest.raises(InputError, match="one class only"):
        StudentClassifier(ISLANDS).fit(islands[0], lambda chosen: np.zeros(len(chosen), np.int64), questions=9)


def test_what_is_neither_images_nor_features_is_refused():
    with pytest.raises(InputError, match="shape"):
        StudentClassifier(2).fit(np.zeros(5), lambda chosen: chosen, questions=2)
    with pytest.raises(InputError, match="not finite"):
        Neighbours(np.full((5, 2), np.nan))


def test_a_student_of_images(monkeypatch):
    pytest.importorskip("torch", reason="needs the optional extra torch")
    rng = np.random.default_rng(0)
    kinds = np.arange(60) % 3
    images = rng.random((60, 8, 8), np.float32) * 0.2
    for kind in range(3):
        images[kinds == kind, :, 3 * kind : 3 * kind + 2] += 0.8
    monkeypatch.setattr(few_labels, "_LIGHT", {"network": "small", "batch": 30, "steps": 3})
    stages = set()
    student = StudentClassifier(3, settings={"network": "small", "steps": 3}, device="cpu", balanced=False)
    student.fit(images, lambda chosen: kinds[chosen], 6, lambda stage, *_: stages.add(stage))
    assert stages == {"learning features", "training"}
    assert student.predict(images).shape == (60,)


def test_labels_given_on_to_neighbours_teach_an_estimator_more():
    rng = np.random.default_rng(5)
    kinds = np.repeat(np.arange(2), 150)
    angles = np.where(kinds, 2.7 + 0.4 * rng.random(300), 2.4 * rng.random(300))  # a long arc, a gap, a short one
    arcs = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    right = {}
    for spread in (False, True):
        student = StudentClassifier(2, spread=spread).fit(arcs, lambda chosen: kinds[chosen], questions=2)
        right[spread] = (student.predict(arcs) == kinds).mean()
    assert right[True] > max(0.97, right[False])
