"""What runs on devices, and what a server does with it: reports, their law, hostile ones, files."""

import hashlib
import json
import math
import pickle
import random
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.local import protocol as protocol_module
from pm_dpgmm.methods.local.protocol import HEADER, REPORT_SIZE, LocalProtocol
from pm_dpgmm.methods.local.randomisers import KINDS
from pm_dpgmm.methods.local.responses import CellResponses, SubsetResponses, WaveResponses

WAVES = {"frequencies": [[0.5, 0.1], [1.0, -0.2], [0.3, 2.0]], "phases": [0.0, 1.5, 3.0]}
EDGES = {"edges": [[-1.0, 0.5], [0.0, 2.0]]}
RECORDS = [[0.0, 0.0], [2.0, -1.0], [-3.0, 5.0], [1e308, 1e308], [-1e308, 0.5], [0.5, 2.0]]


def protocol(kind, epsilon=1.0):
    return LocalProtocol(kind, epsilon, **(WAVES if kind == "one-bit" else EDGES))


# ------------------------------------------------------------------ reports
@pytest.mark.parametrize("kind", KINDS)
def test_a_report_has_sixteen_bytes_and_says_what_the_randomiser_drew(kind):
    asked = protocol(kind)
    for record in RECORDS:
        report = asked.respond(record)
        assert isinstance(report, bytes) and len(report) == REPORT_SIZE == 16
        output = asked.output_of(report)
        assert output < 6 if kind == "one-bit" else asked.law.valid(output)


@pytest.mark.parametrize("kind", KINDS)
def test_the_law_of_a_whole_report_is_exactly_private(kind):
    """Wave times side, or cell: the factor of the wave is the same for every record, so that of the randomiser rules."""
    asked = protocol(kind)
    limit = Fraction(271828182845904523536, 10**20)  # e, rounded down
    laws = []
    for record in RECORDS:
        values = asked._values(record)
        law = {}
        if kind == "one-bit":
            for wave in range(3):
                place = asked._side(values, wave)
                law |= {2 * wave + bit: Fraction(1, 3) * asked.law.probability(bit, place) for bit in (0, 1)}
        else:
            law = {output: asked.law.probability(output, asked._cell(values)) for output in asked.law.outputs()}
        assert sum(law.values()) == 1
        laws.append(law)
    assert all(a[y] <= limit * b[y] for a in laws for b in laws for y in a)


def test_reports_have_the_stated_frequencies():
    """Each of 6 outputs within 5 standard deviations of 20,000 reports: a false alarm in 3e5 seeds."""
    asked, n = protocol("one-bit"), 20_000
    rng = np.random.default_rng(5)
    counts = Counter(asked.output_of(asked.respond([2.0, -1.0], rng)) for _ in range(n))
    for wave in range(3):
        turn = float(np.dot(WAVES["frequencies"][wave], [2.0, -1.0]) + WAVES["phases"][wave])
        for bit in (0, 1):
            p = float(asked.law.probability(bit, int(math.cos(turn) > 0))) / 3
            assert abs(counts[2 * wave + bit] - n * p) < 5 * math.sqrt(n * p * (1 - p))


def test_a_seed_repeats_a_report_and_the_system_does_not():
    asked = protocol("one-bit")
    assert asked.respond([1, 2], np.random.default_rng(1)) == asked.respond([1, 2], np.random.default_rng(1))
    assert asked.respond([1, 2], random.Random(1)) == asked.respond([1, 2], random.Random(1))
    assert len({asked.respond([1, 2]) for _ in range(100)}) == 100


def test_cells_are_closed_above_and_the_outermost_reach_to_infinity():
    asked = protocol("k-ary")
    assert [asked._cell(asked._values(x)) for x in RECORDS] == [3, 6, 2, 8, 1, 4]
    line = LocalProtocol("k-ary", 1.0, edges=[[0.0, 1.0]])
    assert [line._cell([x]) for x in (-1e300, 0.0, 1e-300, 1.0, 5.0)] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    "record, error, words",
    [
        ([1.0], ValueError, "record must have 2 numbers, got 1"),
        ([1.0, math.nan], ValueError, "record must be finite"),
        ([1.0, math.inf], ValueError, "record must be finite"),
        ([1.0, 10**400], ValueError, "record must be a number that a float can hold"),
        (["1", 2.0], TypeError, "record must be 2 real numbers"),
        ([True, 2.0], TypeError, "record must be 2 real numbers"),
        (None, TypeError, "record must be 2 real numbers"),
        ("12", TypeError, "record must be 2 real numbers"),
        (b"12", TypeError, "record must be 2 real numbers"),
        ({1.0: "a", 2.0: "b"}, TypeError, "record must be 2 real numbers"),
        ({1.0, 2.0}, TypeError, "record must be 2 real numbers"),
        ([1 + 2j, 2.0], TypeError, "record must be 2 real numbers"),
        (3.0, ValueError, "record must have 2 numbers, got 1"),
    ],
)
def test_bad_records_get_one_clear_error_before_anything_is_drawn(record, error, words):
    with pytest.raises(error, match=words):
        protocol("one-bit").respond(record, 5)  # a generator that would fail if it were asked


def test_numpy_numbers_and_a_bare_number_are_records():
    line = LocalProtocol("one-bit", 1.0, frequencies=[[0.5]], phases=[0.0])
    for record in (np.float32(1.5), np.array([2.0]), [np.int64(3)], 4, (5.0,)):
        assert len(line.respond(record)) == 16


# ------------------------------------------------------------------ the device's cost
def test_the_client_loads_in_milliseconds_without_numpy():
    code = (
        "import sys; before = set(sys.modules)\n"
        "from pm_dpgmm.methods.local.protocol import LocalProtocol\n"
        "asked = LocalProtocol('one-bit', 1.0, frequencies=[[0.5]], phases=[0.0])\n"
        "asked = LocalProtocol.from_json(asked.to_json()); assert len(asked.respond([1.0])) == 16\n"
        "print(*(m for m in sys.modules if m not in before))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "sklearn", "opendp", "pandas", "numba", "pm_dpgmm._arguments"} & set(loaded)
    assert len(loaded) < 120


def test_a_report_takes_few_steps():
    """Calls of functions, in Python and in C, which no load of the machine changes: 5 to 10 microseconds' worth."""
    asked = LocalProtocol.design(2, epsilon=1.0, bounds=(-1, 1))
    asked.respond((0.3, -0.2))
    calls = []
    sys.setprofile(lambda frame, event, called: calls.append(event) if event in ("call", "c_call") else None)
    try:
        asked.respond((0.3, -0.2))
    finally:
        sys.setprofile(None)
    assert len(calls) < 60, len(calls)


# ------------------------------------------------------------------ the protocol as a text
@pytest.mark.parametrize("kind", KINDS)
def test_a_protocol_survives_text_and_pickle(kind):
    asked = protocol(kind, 0.7)
    again = LocalProtocol.from_json(asked.to_json())
    assert again == asked == pickle.loads(pickle.dumps(asked)) and hash(again) == hash(asked)
    assert again.fingerprint == asked.fingerprint and again.to_json() == asked.to_json()
    assert asked.output_of(again.respond(RECORDS[0])) >= 0
    assert protocol(kind, 0.8).fingerprint != asked.fingerprint and asked != protocol(kind, 0.8)
    assert kind in repr(asked)


def test_a_protocol_is_frozen():
    asked = protocol("one-bit")
    with pytest.raises(AttributeError, match="frozen"):
        asked.epsilon = 2.0
    with pytest.raises(AttributeError, match="frozen"):
        del asked.phases


@pytest.mark.parametrize(
    "change, words",
    [
        ({"schema": "x"}, "a protocol must have schema"),
        ({"schema_version": 1}, "schema_version must be 2 .* got 1: before 2, reports name their protocol by 24 bits"),
        ({"schema_version": 3}, "schema_version must be 2"),
        ({"schema_version": True}, "schema_version must be 2 for this version, got True$"),
        ({"more": 1}, "a protocol must have randomiser, epsilon"),
        ({"epsilon": None}, "epsilon must be a real number"),
        ({"epsilon": 0}, "epsilon must be from 1e-06"),
        ({"epsilon": 1e16}, "epsilon must be from 1e-06"),
        ({"epsilon": math.nan}, "epsilon must be from 1e-06"),
        ({"randomiser": "gaussian"}, "randomiser must be one of"),
        ({"randomiser": ["one-bit"]}, "randomiser must be one of"),
        ({"phases": [0.0]}, "phases must be as many as frequencies, 3, got 1"),
        ({"phases": ["0", 1, 2]}, "phases must be a real number"),
        ({"frequencies": []}, "frequencies must have 1 to"),
        ({"frequencies": [[1], [1, 2], [3]]}, "frequencies must have rows of equal length"),
        ({"frequencies": [[1e200, 0]] * 3}, "frequencies must be finite and of size at most 1e"),
        ({"frequencies": "abc"}, "frequencies must be a sequence of rows"),
        ({"frequencies": 5}, "frequencies must be a sequence of rows"),
        ({"edges": [[0.0]]}, "edges must be left out"),
        ({"scale": [0.0, 1.0]}, "centre and scale must be 2 numbers"),
        ({"centre": [0.0]}, "centre and scale must be 2 numbers"),
    ],
)
def test_broken_protocols_are_refused(change, words):
    fields = protocol("one-bit").to_dict() | change
    with pytest.raises((TypeError, ValueError), match=words):
        LocalProtocol.from_dict(fields)


@pytest.mark.parametrize(
    "kind, edges, words",
    [
        ("symmetric", [list(range(64))], "at most 64 cells"),
        ("k-ary", [list(range(2**16))], "at most 65536 cells"),
        ("subset", [[0.0, 0.0]], "edges must increase"),
        ("optimised", [], "edges must be given"),
    ],
)
def test_cells_that_no_report_can_tell_of_are_refused(kind, edges, words):
    with pytest.raises(ValueError, match=words):
        LocalProtocol(kind, 1.0, edges=edges)
    with pytest.raises(ValueError, match="frequencies and phases must be left out"):
        LocalProtocol(kind, 1.0, edges=[[0.0]], **WAVES)


@pytest.mark.parametrize("text", ["", "[", "[]", "null", "{}", 5, None, "[" * 100_000, '{"a": 1}'])
def test_text_that_is_no_protocol_is_refused(text):
    with pytest.raises(ValueError, match="a protocol must"):
        LocalProtocol.from_json(text)


# ------------------------------------------------------------------ the server
@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_the_reports(kind):
    asked, rng = protocol(kind), np.random.default_rng(2)
    reports = [asked.respond(RECORDS[i % 6], rng) for i in range(300)]
    found = asked.aggregate(iter(reports))
    assert isinstance(found, dpg.LocalReports) and found.n_reports == 300 and found.refused == {}
    said, responses = Counter(map(asked.output_of, reports)), found.responses
    if kind == "one-bit":
        assert isinstance(responses, WaveResponses)
        assert responses.ones.tolist() == [said[2 * m + 1] for m in range(3)]
        assert responses.asked.tolist() == [said[2 * m] + said[2 * m + 1] for m in range(3)]
    elif kind == "subset":
        assert isinstance(responses, SubsetResponses) and responses.members.shape == (len(said), 9)
        packed = responses.members @ (2.0 ** np.arange(9))
        assert dict(zip(packed.astype(int).tolist(), responses.counts.astype(int).tolist(), strict=True)) == said
    else:
        assert isinstance(responses, CellResponses)
        has = (lambda y, j: y == j) if kind == "k-ary" else (lambda y, j: y >> j & 1)
        assert responses.counts.tolist() == [sum(n for y, n in said.items() if has(y, j)) for j in range(9)]
    np.testing.assert_allclose(responses.channel, [float(c) for c in asked.law.chances])


BAD = {
    "older version": lambda report: b"\x01" + report[1:],
    "other version": lambda report: b"\x03" + report[1:],
    "changed on its way": lambda report: report[:2] + bytes([report[2] ^ 1]) + report[3:],
    "other protocol": lambda report: protocol("one-bit", 2.0).respond(RECORDS[0]),
    "short": lambda report: report[:-1],
    "long": lambda report: report + b"\x00",
    "empty": lambda report: b"",
    "no such wave": lambda report: protocol("one-bit")._sealed(b"\x02\xff" + bytes(8)),
    "text": lambda report: "report" * 3,
    "number": lambda report: 16,
    "none": lambda report: None,
    "list": lambda report: list(report),
    "twice": lambda report: report,
}


@pytest.mark.parametrize("name", BAD)
def test_hostile_reports_are_named_or_left_out_and_counted(name):
    asked = protocol("one-bit")
    good = [asked.respond(record) for record in RECORDS]
    bad = BAD[name](good[0])
    with pytest.raises((TypeError, ValueError), match=r"reports\[6\]: a report must"):
        asked.aggregate([*good, bad])
    found = asked.aggregate([*good, bad, bad], strict=False)
    assert found.n_reports == 6 and sum(found.refused.values()) == 2
    assert found.responses.ones.tolist() == asked.aggregate(good).responses.ones.tolist()


def test_reports_may_be_any_bytes_and_must_be_some():
    asked = protocol("one-bit")
    report = asked.respond(RECORDS[0])
    assert asked.aggregate([bytearray(report)]).n_reports == asked.aggregate([memoryview(report)]).n_reports == 1
    for wrong in (report, "text", 5, None):
        with pytest.raises(TypeError, match="reports must be an iterable of reports"):
            asked.aggregate(wrong)
    with pytest.raises(
        TypeError, match="reports must be a list, or an array of dtype object, got one of fixed lengths"
    ):
        asked.aggregate(np.array([report, report]))
    with pytest.raises(ValueError, match="reports must hold at least one"):
        asked.aggregate([])
    with pytest.raises(ValueError, match="reports must hold at least one report of this protocol, got none among 1"):
        asked.aggregate([b"x"], strict=False)
    with pytest.raises(TypeError, match="strict must be True or False"):
        asked.aggregate([report], strict=1)


def test_one_report_moves_one_count():
    """What a liar can do: as much as any other person."""
    asked = protocol("one-bit")
    good = [asked.respond(record) for record in RECORDS]
    for output in range(6):
        forged = asked._sealed(good[0][:HEADER] + bytes([output]) + b"\x07" * 8)
        more = asked.aggregate([*good, forged]).responses
        less = asked.aggregate(good).responses
        assert (more.asked - less.asked).sum() == 1 and np.abs(more.ones - less.ones).sum() == output % 2


# ------------------------------------------------------------------ a deployment
def test_devices_and_a_server_make_a_release(tmp_path):
    asked = dpg.LocalProtocol.design(1, epsilon=4.0, bounds=(-10, 10))
    devices = dpg.LocalProtocol.from_json(asked.to_json())
    rng = np.random.default_rng(3)
    records = rng.normal([-4.0] * 3_000 + [4.0] * 3_000)
    reports = [devices.respond(record, rng) for record in records]
    release = dpg.fit_reports(asked.aggregate(reports), 2, feature_names=["income"], progress=False)
    assert release.method == "local" and release.n_records == 6_000 and release.feature_names == ("income",)
    assert (release.guarantee.epsilon, release.guarantee.delta) == (4.0, 0.0)
    np.testing.assert_allclose(np.sort(release.means[:, 0]), [-4, 4], atol=0.5)
    assert dpg.load(release.save(tmp_path / "r.json")).to_dict() == release.to_dict()
    assert "method 'local'" in release.summary() and "randomised" in release.card(tmp_path / "card.md").read_text()
    more = dpg.fit_reports([asked.aggregate(reports[:3_000]), asked.aggregate(reports[3_000:])], 2, progress=False)
    np.testing.assert_allclose(np.sort(more.means[:, 0]), np.sort(release.means[:, 0]), atol=1e-3)
    assert more.n_records == 6_000


def test_reports_of_other_kinds_are_not_put_together():
    rng = np.random.default_rng(1)

    def counted(kind, epsilon=1.0, **parts):
        asked = LocalProtocol(kind, epsilon, **(parts or (WAVES if kind == "one-bit" else EDGES)))
        return asked.aggregate([asked.respond(x[: asked.n_features], rng) for x in RECORDS])

    for other in (counted("k-ary"), counted("one-bit", 2.0)):
        with pytest.raises(ValueError, match="reports must be of 'one-bit' protocols with one epsilon"):
            dpg.fit_reports([counted("one-bit"), other], 1)
    line = counted("one-bit", frequencies=[[1.0]], phases=[0.0])
    with pytest.raises(ValueError, match="reports must have 2 columns, got 1 as well"):
        dpg.fit_reports([counted("one-bit"), line], 1)
    for wrong in (None, [], [None], b"x", 5):
        with pytest.raises(TypeError, match="reports must be LocalReports, or a list of some"):
            dpg.fit_reports(wrong, 1)
    with pytest.raises(ValueError, match="at most 256 numbers, got 60 in 2 columns"):
        dpg.fit_reports(counted("one-bit"), 60)
    with pytest.raises(ValueError, match="feature_names must be distinct"):
        dpg.fit_reports(counted("one-bit"), 1, feature_names=["a", "a"])
    with pytest.raises(ValueError, match="feature_names must have 2 names, got 1"):
        dpg.fit_reports(counted("one-bit"), 1, feature_names=["a"])
    with pytest.raises(ValueError, match="of different people"):
        dpg.fit_reports([line, line], 1)


def test_the_same_reports_counted_twice_are_no_other_people():
    plain = LocalProtocol("one-bit", 1.0, frequencies=[[1.0]], phases=[0.0])
    sent = [[plain.respond(0.5) for _ in range(50)] for _ in range(2)]
    with pytest.raises(ValueError, match="reports must be of different people, got the same ones twice"):
        dpg.fit_reports([plain.aggregate(sent[0]), plain.aggregate(sent[0][::-1])], 1, progress=False)
    counts = [plain.aggregate(one) for one in sent]
    assert dpg.fit_reports(counts, 1, progress=False).n_records == 100
    both = plain.aggregate([*sent[0][40:], *sent[1]])  # each evening the counts since the day before yesterday
    with pytest.raises(ValueError, match="each in one of them, got 10 that are in several; aggregate all of one"):
        dpg.fit_reports([counts[0], both], 1, progress=False)
    again = pickle.loads(pickle.dumps(both))
    with pytest.raises(ValueError, match="got 60 that are in several"):
        dpg.fit_reports([*counts, again], 1, progress=False)
    unmarked = [dpg.LocalReports(plain, counts[0].responses) for _ in range(2)]  # equal counts may be of other people
    assert dpg.fit_reports(unmarked, 1, progress=False).n_records == 100


def test_counts_are_of_the_protocol_beside_them():
    """Else a release would state an epsilon that its answers do not have."""
    sharp = LocalProtocol("one-bit", 8.0, frequencies=[[1.0]], phases=[0.0])
    plain = LocalProtocol("one-bit", 1.0, frequencies=[[1.0]], phases=[0.0])
    found = sharp.aggregate([sharp.respond(0.5) for _ in range(50)])
    with pytest.raises(ValueError, match="responses must be counts of reports of"):
        dpg.LocalReports(plain, found.responses)
    release = dpg.fit_reports(found, 1, progress=False, simulated=True)
    assert not release.private and dpg.fit_reports(found, 1, progress=False).private


def test_the_table_of_a_report_is_that_of_the_module():
    assert protocol_module.REPORT_VERSION == 2 and json.loads(protocol("one-bit").to_json())["schema_version"] == 2
    for kind, output, tag in [("one-bit", 1, 6), ("k-ary", 1, 6), ("subset", 2, 6)]:
        report = protocol(kind).respond(RECORDS[0])
        body = bytes.fromhex(protocol(kind).fingerprint) + report[: 16 - tag]
        assert report[0] == 2 and report[-tag:] == hashlib.sha256(body).digest()[:tag]
        assert int.from_bytes(report[1 : 1 + output], "big") == protocol(kind).output_of(report)
    sixty_four = LocalProtocol("optimised", 1.0, edges=[[*range(63)]])
    assert len({sixty_four.respond([5.5])[9:13] for _ in range(50)}) == 50  # the mark: 4 bytes


def test_no_two_protocols_can_be_ground_whose_reports_pass_for_each_other():
    """The header was 24 bits of the fingerprint: among some thousand protocols two share them."""
    seen, pair = {}, None
    for i in range(40_000):
        asked = LocalProtocol("k-ary", 1.0, edges=[[0.0]], centre=[i])
        head = asked.fingerprint[:6]
        if head in seen:
            pair = seen[head], asked
            break
        seen[head] = asked
    assert pair is not None  # of 40,000 there are none with probability exp(-47)
    one, other = pair
    for report in [one.respond([x]) for x in (-1.0, 1.0) for _ in range(20)]:  # false alarm: 40 / 2^48
        assert one.output_of(report) in (0, 1)
        with pytest.raises(ValueError, match=f"a report must be of protocol {other.fingerprint[:16]}, whole"):
            other.output_of(report)


def test_a_protocol_is_no_larger_than_a_device_reads_in_seconds():
    """A stranger's text of 79 MB took 23 s and gigabytes."""
    one = LocalProtocol.design(2, epsilon=1.0, bounds=(-1, 1))
    fields = json.loads(one.to_json())
    fields |= {"frequencies": [[0.0] * 32] * 2**16, "phases": [0.0] * 2**16, "centre": [0.0] * 32, "scale": [1.0] * 32}
    with pytest.raises(ValueError, match="frequencies must be at most 1048576 numbers, got 65536 rows of 32"):
        LocalProtocol.from_json(json.dumps(fields))


@pytest.mark.parametrize(
    "given, words",
    [
        ({"randomiser": "gaussian"}, "randomiser must be one of"),
        ({"randomiser": None}, "randomiser must be one of"),
        ({"bounds": None}, "method 'local' needs bounds, or scale"),
        ({"bounds": (1, 0)}, "bounds must have low < high"),
        ({"bounds": None, "scale": -1.0}, "scale above 0"),
        ({"resolution": 0.0}, "resolution must be"),
        ({"n_features": 0}, "n_features must be at least 1"),
        ({"n_features": 3, "randomiser": "subset"}, "randomiser must be 'one-bit' with more than 2 columns"),
        ({"randomiser": "k-ary", "n_cells": 2**17}, "n_cells must be at most 65536"),
        ({"epsilon": "1"}, "epsilon must be a real number"),
        ({"epsilon": np.ma.array([1.0, 2.0], mask=[True, False])}, "epsilon must be a real number, got masked_array"),
    ],
)
def test_designs_that_cannot_be_are_refused(given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        LocalProtocol.design(**{"n_features": 1, "epsilon": 1.0, "bounds": (-1, 1)} | given)


def test_a_protocol_with_a_key_twice_is_refused():
    """Somebody who reads the text sees the first epsilon, and a device would take the last."""
    asked = dpg.LocalProtocol.design(1, epsilon=1.0, bounds=(0, 1))
    text = asked.to_json().replace('"epsilon"', '"epsilon": 0.1, "epsilon"', 1)
    with pytest.raises(ValueError, match="keys must be there once, got 'epsilon' twice"):
        dpg.LocalProtocol.from_json(text)
