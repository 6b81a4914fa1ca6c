"""Processes and what they have started."""

import os
import subprocess
import sys

from sedml.lab.bench.resident import family, peak_mb, resident_mb

CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(flush=True); input()'])"


def test_a_family_has_children_and_their_children_while_they_run():
    before = family(os.getpid())
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()  # the grandchild's
        found = family(child.pid)
        assert len(found) == 2
        assert set(found) <= set(family(os.getpid()))
        assert all(0 < resident_mb(one) <= peak_mb(one) for one in found)
        child.communicate(b"\n")
    assert set(family(os.getpid())) == set(before)
