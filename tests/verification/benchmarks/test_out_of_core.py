import pytest

from verification.benchmarks import out_of_core


@pytest.mark.thorough
@pytest.mark.parametrize("most, status", [(4096, 0), (10, 1)], ids=["met", "missed"])
def test_a_small_file_is_written_read_and_judged(monkeypatch, capsys, most, status):
    monkeypatch.setattr(out_of_core, "MOST_MEMORY", most)
    assert out_of_core.main(["--rows", "20000"]) == status
    told = capsys.readouterr().out
    assert "20,000 records of 5 columns, 1 MiB" in told and ("MISSED" if status else "met") in told


def test_a_file_needs_rows(capsys):
    with pytest.raises(SystemExit):
        out_of_core.main(["--rows", "10"])
    assert "--rows must be at least 1000" in capsys.readouterr().err
