"""Trees and proofs of RFC 6962, on the vectors of the certificate-transparency project and on every small tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import LogError
from sedml.service.log.merkle import EMPTY, Tree, check_consistency, check_inclusion, leaf_hash

LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
H = {
    "0": "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "1": "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
    "23": "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
    "4": "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    "45": "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
    "6": "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f",
    "67": "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
    "0-3": "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4-7": "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
}


def known(count=8):
    return Tree(leaf_hash(bytes.fromhex(leaf)) for leaf in LEAVES[:count])


def hexes(path):
    return [one.hex() for one in path]


def test_the_roots_of_certificate_transparency():
    assert [known().root(size).hex() for size in range(9)] == ROOTS
    assert [known(size).root(size).hex() for size in range(9)] == ROOTS


@pytest.mark.parametrize(
    ("index", "size", "path"),
    [(0, 1, ""), (0, 8, "1 23 4-7"), (5, 8, "4 67 0-3"), (1, 5, "0 23 4")],
)
def test_its_inclusion_proofs(index, size, path):
    assert hexes(known().inclusion(index, size)) == [H[one] for one in path.split()]


@pytest.mark.parametrize(
    ("old", "new", "path"), [(1, 1, ""), (1, 8, "1 23 4-7"), (6, 8, "45 67 0-3"), (2, 5, "23 4"), (6, 7, "45 6 0-3")]
)
def test_its_consistency_proofs(old, new, path):
    assert hexes(known().consistency(old, new)) == [H[one] for one in path.split()]


def grown(size, mark=b""):
    return Tree(leaf_hash(b"%d" % number + (mark if number == size // 2 else b"")) for number in range(size))


@pytest.mark.parametrize("size", range(1, 34))
def test_every_proof_of_a_small_tree_holds_and_of_another_tree_does_not(size):
    tree, other = grown(size), grown(size, b"changed")
    root = tree.root(size)
    for index in range(size):
        path, leaf = tree.inclusion(index, size), leaf_hash(b"%d" % index)
        check_inclusion(leaf, index, size, path, root)
        for wrong in (
            (leaf, index, size, path, other.root(size)),
            (leaf_hash(b"no"), index, size, path, root),
            (leaf, index, size, [*path, root], root),
            (leaf, size, size, path, root),
        ):
            with pytest.raises(LogError):
                check_inclusion(*wrong)
        if size > 1:
            with pytest.raises(LogError):
                check_inclusion(leaf, (index + 1) % size, size, path, root)
    for old in range(size + 1):
        path, before = tree.consistency(old, size), (old, tree.root(old))
        check_consistency(before, (size, root), path)
        lies = [(before, (size, root), [*path, root])]
        if old > size // 2:
            lies += [(before, (size, other.root(size)), other.consistency(old, size))]
        if path:
            lies += [(before, (size, root), path[:-1]), (before, (size, root), [root, *path[1:]])]
        if old:
            lies += [((old, EMPTY), (size, root), path), ((size + 1, root), (size, root), path)]
        for lie in lies:
            with pytest.raises(LogError):
                check_consistency(*lie)


@given(st.lists(st.integers(0, 40), max_size=6), st.randoms(use_true_random=False))
def test_whatever_sizes_were_noted_on_the_way_they_are_consistent(grows, random):
    tree, noted = Tree(), [(0, EMPTY)]
    for count in grows:
        for _ in range(count):
            tree.add(leaf_hash(random.randbytes(4)))
        noted.append((tree.size, tree.root(tree.size)))
    for place, old in enumerate(noted):
        for new in noted[place:]:
            check_consistency(old, new, tree.consistency(old[0], new[0]))


def test_a_root_beyond_the_tree_is_refused():
    with pytest.raises(LogError, match="1 entries, and not 2"):
        Tree([bytes(32)]).root(2)
