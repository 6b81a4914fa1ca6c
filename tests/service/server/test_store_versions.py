"""A store of an earlier release: its ballots cannot be counted here, so the server does not start, and says why."""

import pytest
import sqlalchemy as sa

from sedml.errors import StoreError
from sedml.service.server.storage.tables import SCHEMA


@pytest.mark.parametrize("version", [2, SCHEMA.version - 1])
def test_a_server_does_not_start_on_an_older_store_and_leaves_it_alone(deployed, version):
    site = deployed.sites[0]
    with site.node.store.write() as connection:
        connection.execute(sa.update(SCHEMA.versions).values(version=version))
    site.node.close()
    for _ in range(2):
        with pytest.raises(StoreError, match=f"tables of version {version}") as caught:
            site.start()
        assert "Finish its jobs with the release of sedml that wrote it" in caught.value.do
    newer = sa.create_engine(f"sqlite:///{site.overrides['data_dir']}/server.db", poolclass=sa.NullPool)
    with newer.begin() as connection:
        connection.execute(sa.update(SCHEMA.versions).values(version=SCHEMA.version))
    site.start()
