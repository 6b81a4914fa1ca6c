"""The samples of a job, from either server, and nothing but what its terms say."""

import httpx2
import pytest

from sedml.errors import FileFormatError, ServerError
from support.wire import Fail


def test_the_samples_can_be_fetched_as_bytes_to_a_file_or_into_a_folder(parties, deployed, data_file, tmp_path):
    job = parties.create(data_file).id
    content = data_file.read_bytes()
    assert parties.teacher(1, "fetch", job) == content
    to = tmp_path / "here"
    to.mkdir()
    assert parties.teacher(1, "fetch", job, to).read_bytes() == content
    assert [path.name for path in to.iterdir()] == [f"{job}.npz"]
    file = tmp_path / "samples.bin"
    assert parties.teacher(1, "fetch", job, file) == file
    assert file.read_bytes() == content


@pytest.mark.parametrize("name", ["samples.csv", "samples.parquet", "samples.npy"])
def test_samples_are_not_written_under_the_name_of_another_kind_of_file(parties, deployed, data_file, tmp_path, name):
    job = parties.create(data_file).id
    with pytest.raises(FileFormatError, match=r"come as \.npz"):
        parties.teacher(1, "fetch", job, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_corrupted_data_are_fetched_from_the_other_server_and_never_used(parties, deployed, data_file, tmp_path):
    job = parties.create(data_file).id
    content = data_file.read_bytes()
    parties.teacher(1, "fetch", job)
    (first,) = (server for server in deployed.servers if server.bodies("GET .*/data"))
    for bad in (content[:-1] + b"x", content[:-1], content + b"x" * (1 << 20)):
        first.fault("GET .*/data", httpx2.Response(200, content=bad))
        assert parties.teacher(1, "fetch", job) == content
        for server in deployed.servers:
            server.fault("GET .*/data", httpx2.Response(200, content=bad))
        before = sorted(tmp_path.iterdir())
        with pytest.raises(ServerError, match="does not match the job's terms"):
            parties.teacher(1, "fetch", job, tmp_path / "samples.npz")
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("how", [Fail.LOSE, Fail.CUT_ANSWER])
def test_a_download_that_breaks_off_is_begun_again(parties, deployed, data_file, how):
    job = parties.create(data_file).id
    for server in deployed.servers:
        server.fault("GET .*/data", how, times=2)
    assert parties.teacher(1, "fetch", job) == data_file.read_bytes()
    assert sum(len(server.bodies("GET .*/data")) for server in deployed.servers) == 3


def test_a_server_whose_downloads_always_break_off_is_left_for_the_other(parties, deployed, data_file, tmp_path):
    job = parties.create(data_file).id
    parties.teacher(1, "fetch", job)
    (first,) = (server for server in deployed.servers if server.bodies("GET .*/data"))
    first.fault("GET .*/data", Fail.CUT_ANSWER, times=4)
    assert parties.teacher(1, "fetch", job, tmp_path / "samples.npz").read_bytes() == data_file.read_bytes()


def test_a_place_that_cannot_be_written_is_explained(parties, deployed, data_file, tmp_path):
    job = parties.create(data_file).id
    with pytest.raises(FileFormatError, match="cannot be written"):
        parties.teacher(1, "fetch", job, tmp_path / "nowhere" / "samples.npz")


def test_a_teacher_sees_the_open_jobs(parties, deployed, data_file):
    first = parties.create(data_file, title="first").id
    deployed.later(hours=1)
    parties.create(data_file, title="second")
    views = parties.teacher(1, "jobs")
    assert [view.terms.title for view in views] == ["second", "first"]
    assert parties.teacher(1, "status", first).votes == (0, 0)
