"""Every copy finds the piece of its owner that holds it, or is refused."""

import pytest
import torch
from replica_programs import SLICED, data_parallel, program_of

from hyperplace.errors import UsageError
from hyperplace.runtime.pieces import add, cut, paste, slice_of
from hyperplace.values.loans import Loan, borrowers, find_loans, updaters, users_of
from hyperplace.values.program import Copy, Feed, Keep, PartProgram, Piece, Segment


def part_of(weights, runs=True):
    segments = (Segment("go", (Feed(0, "0:1"),), (Keep("h"),)),) if runs else ()
    return PartProgram(weights, segments=segments)


def loan_of(piece, copy):
    (loan,) = find_loans([part_of({"w": piece}), part_of({"copy": copy})])
    assert (loan.owner, loan.borrower, loan.lent, loan.copy) == (0, 1, "w", "copy")
    return loan


INDEXES = [
    ("", ""),
    ("", "2:5"),
    ("", "2:5, 1:3"),
    ("2:6", "3:5"),
    ("1:3+5:8", "2:3+5:7"),
    ("1:3+3:8", "2:6"),
    ("5:8+1:3", "1:3+5:7, 0:1+3:4"),
    ("0:8, 1:4", "0:2+4:5, 1:2+3:4"),
]


@pytest.mark.parametrize(("owned", "copied"), INDEXES)
def test_a_loan_is_the_slice_of_the_owners_piece(owned, copied):
    whole = torch.randn(8, 4)
    piece, copy = Piece("w", (8, 4), owned), Copy("w", (8, 4), copied, owner=0)
    loan = loan_of(piece, copy)
    assert torch.equal(cut(slice_of(piece, whole), loan.spans), slice_of(copy, whole))


@pytest.mark.parametrize(("owned", "copied"), INDEXES)
def test_what_is_added_arrives_where_it_belongs(owned, copied):
    piece, copy = Piece("w", (8, 4), owned), Copy("w", (8, 4), copied, owner=0)
    first, second = torch.randn(8, 4), torch.randn(8, 4)
    found = slice_of(piece, first)
    add(found, slice_of(copy, second), loan_of(piece, copy).spans)
    wanted = torch.zeros(8, 4)
    paste(wanted, slice_of(copy, second), copy.spans)
    assert torch.equal(found, slice_of(piece, first + wanted))


def test_the_piece_with_all_of_the_copy_is_found_among_several():
    owner = part_of({"a": Piece("w", (8,), "0:4"), "b": Piece("w", (8,), "4:8"), "c": Piece("v", (8,))})
    (loan,) = find_loans([owner, part_of({"copy": Copy("w", (8,), "5:7", owner=0)})])
    assert loan == Loan(owner=0, borrower=1, lent="b", copy="copy", spans=(((1, 3),),))


REFUSED = {
    "another name": ({"w": Piece("v", (8,))}, Copy("w", (8,), owner=0)),
    "another shape": ({"w": Piece("w", (8, 1))}, Copy("w", (8,), owner=0)),
    "only some of it": ({"w": Piece("w", (8,), "0:4")}, Copy("w", (8,), "3:5", owner=0)),
    "in two pieces": ({"v": Piece("w", (8,), "0:4"), "w": Piece("w", (8,), "4:8")}, Copy("w", (8,), "3:5", owner=0)),
    "a copy itself": ({"w": Copy("w", (8,), owner=1)}, Copy("w", (8,), owner=0)),
    "its own": ({"w": Piece("w", (8,))}, Copy("w", (8,), owner=1)),
    "no such part": ({"w": Piece("w", (8,))}, Copy("w", (8,), owner=7)),
}


@pytest.mark.parametrize(("owned", "copy"), REFUSED.values(), ids=REFUSED)
def test_a_copy_that_nobody_owns_is_refused(owned, copy):
    owner, borrower = part_of(owned, runs=False), part_of({"copy": copy})
    with pytest.raises(UsageError, match=rf"part 1 has a copy of w.* but part {copy.owner} owns no pieces"):
        find_loans([owner, borrower])


def test_a_copy_that_is_owned_twice_is_refused():
    owner = part_of({"a": Piece("w", (8,)), "b": Piece("w", (8,), "2:6")})
    with pytest.raises(UsageError, match=r"copy of w\[3:5\], but part 0 owns 2 pieces"):
        find_loans([owner, part_of({"copy": Copy("w", (8,), "3:5", owner=0)})])


def test_who_lends_to_whom():
    assert borrowers(find_loans(program_of(data_parallel(3)).program.parts)) == {0: {1, 2}, 1: {0, 2}}
    assert borrowers(find_loans(SLICED.program.parts)) == {0: {1, 2}}
    assert find_loans([part_of({"w": Piece("w", (8,))}), part_of({"w": Copy("w", (8,), owner=0)}, runs=False)]) == ()


def test_all_parts_with_weights_of_their_own_update_also_those_that_lend_nothing():
    parts = SLICED.program.parts
    assert updaters(parts, find_loans(parts)) == {0: {1, 2}, 2: set()}


def test_a_lent_weight_is_used_where_segments_say_so_and_everywhere_where_they_do_not():
    parts = SLICED.program.parts
    assert users_of(parts, find_loans(parts)) == {(0, "w"): {(0, 0), (1, 0), (2, 1)}}
    untold = [part_of({"w": Piece("w", (8,))}), part_of({"w": Copy("w", (8,), owner=0)})]
    assert users_of(untold, find_loans(untold)) == {(0, "w"): {(0, 0), (1, 0)}}
