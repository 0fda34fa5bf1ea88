"""A share of the soak: a host is lost, a spare that has waited takes its place, and all is as if restarted by hand."""

import pytest
from soak import case_of, judged, soak_rank, soaked


@pytest.mark.timeout(200)
def test_a_spare_takes_the_place_of_a_lost_host(tmp_path):
    case = case_of(90, 50, tmp_path, save_every=10, plan="coarse:horizontal", survive_every=4)
    said, killed, codes = soaked(case)
    wrong, _ = judged(case, said, killed, codes)
    assert not wrong
    living = next(line["name"] for line in said if line.get("digest"))
    changes = [line for line in said if "change" in line and line["name"] == living]
    assert [("was lost" in one["change"], "was taken in" in one["change"]) for one in changes] == [
        *[(True, False), (False, True)] * len(killed)
    ]
    events = [(one["num_batches"], 1 if "was lost" in one["change"] else 2) for one in changes]
    begins = [line["begins"] for line in said if line.get("begins")]
    assert begins == [number for number, parts in events if parts == 2], "the spare begins where it is taken in"
    digests = {line["digest"] for line in said if line.get("digest")}
    assert digests == {soak_rank.expected(case, events)[0]}, "the weights are not those of runs restarted by hand"
