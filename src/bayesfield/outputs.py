"""Writing files: what one command writes is there as a whole, or what was there before is, whatever fails between.

One file: its bytes go to a new file beside it, that file is flushed to the disk (fsync), and a rename puts it in its
place. POSIX renames are atomic, so that nobody ever sees half of a file.

Several files (``with as_one():``) cannot be renamed in one step, and to swap whole folders would take away the user's
other files, break where the folder is a mount or the current one, and leave a moment with no folder at all. Therefore a
journal, as databases have: (1) all new files are written beside their targets and flushed; (2) a journal that lists the
renames is put in the folder by one rename: from here on the new files are the ones that count; (3) the renames are
done; (4) the journal is deleted. Where a process is killed before (2), nothing has changed, and the next write there
takes away what is left over; after (2), the next read or write by this library there does the rest of (3) and (4)
(``settle``), which can be repeated as often as needed. Other programs see a mixture only if they read between a kill
within (3), which takes microseconds, and the next command.

Where the files of a command lie in several folders, each has a journal for its own files. The first folder's is the
one that decides: it is written last and deleted last, and the others name it. A journal whose decider is not there was
never decided, and its new files are deleted.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesfield.disk import flush_folder, lock_folder, locked, mode_of, reason_of, unlink, write_all, write_flushed
from bayesfield.types import InvalidInput

JOURNAL = ".bayesfield-journal"
_STAGED = ".bayesfield-new-"  # and a random number: files that are not yet in their places
_AS_BEFORE = "what was there before is as it was"


class Output(NamedTuple):
    """A file to be written; content None: to be deleted. named: as the user calls it."""

    named: str | Path
    content: bytes | None


class _Place(NamedTuple):
    """What is to be done in one folder. moves: (staged, target) names; removals: names."""

    folder: str
    moves: list[tuple[str, str]]
    removals: list[str]


_pending: ContextVar[list[Output] | None] = ContextVar("outputs of the command that is being written", default=None)


@contextmanager
def as_one() -> Iterator[None]:
    """All that is written within is put in its place when this ends, as one; nothing is where an error ends it."""
    if _pending.get() is not None:  # part of a larger one
        yield
        return
    outputs: list[Output] = []
    token = _pending.set(outputs)
    try:
        yield
    finally:
        _pending.reset(token)
    _commit(outputs)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a whole file or nothing; within ``as_one``, with all the others.

    Links stay, and lead to what is written; a file that is replaced keeps its mode. Devices and pipes are written to.
    """
    _add(Output(path, content))


def write_text(path: str | Path, text: str) -> None:
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise InvalidInput(f"cannot write {path}: {half!r} is half of a character, which no text file holds") from None
    write_bytes(path, content)


def write_npz(path: str | Path, **arrays: Any) -> None:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    write_bytes(path, packed.getvalue())


def remove(path: str | Path) -> None:
    """Delete a file if it is there; within ``as_one``, with all that is written."""
    _add(Output(path, None))


def settle(path: str | Path) -> None:
    """Called before a file is read: completes, or takes back, a write into its folder that was interrupted."""
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.lexists(os.path.join(folder, JOURNAL)):
        return
    try:
        with locked(folder):
            _settle(folder)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path}: a command was interrupted while it wrote to {folder}, and what it left cannot be put "
            f"in order: {reason_of(error)}. Make the folder writable, with room on its disk, and try again"
        ) from None


def _add(output: Output) -> None:
    outputs = _pending.get()
    if outputs is None:
        _commit([output])
    else:
        outputs.append(output)


# --- the steps ----------------------------------------------------------------------------------------------------


def _commit(outputs: list[Output]) -> None:
    """Steps (1) to (4) of the head of this file."""
    by_folder: dict[str, list[tuple[Output, str, int | None]]] = {}
    for target, output in {_target(o): o for o in outputs}.items():  # the last of the same name counts
        mode = mode_of(output.named)
        if mode is not None and not stat.S_ISREG(mode):
            _into_device(output)
        else:
            by_folder.setdefault(os.path.dirname(target), []).append((output, os.path.basename(target), mode))
    with _all_locked(sorted(by_folder), outputs) as cleanable:
        for folder in by_folder:
            _settle_before_writing(folder, clean=folder in cleanable)
        places = _stage_all(by_folder)
        if sum(len(p.moves) + len(p.removals) for p in places) <= 1:
            _put_one(places, outputs)
            return
        try:
            _decide(places)
        except BaseException as error:
            _discard(places, journals=True)
            if isinstance(error, OSError):
                raise _refusal(outputs[0].named, error) from None
            raise
        _put_all(places[0].folder)


def _target(output: Output) -> str:
    """Links lead to what is written; what is deleted is the link."""
    if output.content is not None:
        return os.path.realpath(output.named)
    return os.path.join(os.path.realpath(os.path.dirname(output.named)), os.path.basename(output.named))


def _stage_all(by_folder: dict[str, list[tuple[Output, str, int | None]]]) -> list[_Place]:
    """Step (1): every new file, flushed, beside its target."""
    places: list[_Place] = []
    for folder, members in by_folder.items():
        place = _Place(folder, [], [])
        places.append(place)
        for output, name, mode in members:
            if output.content is None:
                if mode is not None:
                    place.removals.append(name)
                continue
            staged = _STAGED + secrets.token_hex(6)
            place.moves.append((staged, name))
            try:
                write_flushed(os.path.join(folder, staged), output.content, mode)
            except OSError as error:
                _discard(places)
                raise _refusal(output.named, error) from None
            except BaseException:  # Ctrl-C
                _discard(places)
                raise
    return places


def _put_one(places: list[_Place], outputs: list[Output]) -> None:
    """One rename or deletion, which needs no journal."""
    try:
        for place in places:
            _apply(place)
    except BaseException as error:
        _discard(places)
        if isinstance(error, OSError):
            raise _refusal(outputs[0].named, error) from None
        raise
    _flush_all([place.folder for place in places])


def _decide(places: list[_Place]) -> None:
    """Step (2)."""
    decider = os.path.join(places[0].folder, JOURNAL)
    for place in reversed(places):
        first = place is places[0]
        content = {
            "format": "bayesfield journal",
            "moves": place.moves,
            "removals": place.removals,
            "decided_by": None if first else decider,
            "others": [p.folder for p in places[1:]] if first else [],
        }
        staged = os.path.join(place.folder, _STAGED + secrets.token_hex(6))
        try:
            write_flushed(staged, json.dumps(content).encode(), None)
            os.replace(staged, os.path.join(place.folder, JOURNAL))
        except BaseException:
            unlink(staged)
            raise
        flush_folder(place.folder)


def _put_all(folder: str) -> None:
    """Steps (3) and (4)."""
    try:
        _complete(folder)
    except OSError as error:
        raise InvalidInput(
            f"the new files are written to {folder}, and could not all be put in their places: {reason_of(error)}. "
            "Nothing is lost: the next bayesfield command that reads or writes there completes it"
        ) from None


def _apply(place: _Place) -> None:
    """The renames and deletions of one folder; those that were done before are passed over."""
    for staged, name in place.moves:
        source = os.path.join(place.folder, staged)
        if os.path.lexists(source):
            os.replace(source, os.path.join(place.folder, name))
    for name in place.removals:
        unlink(os.path.join(place.folder, name))


def _flush_all(folders: list[str]) -> None:
    """After the renames: what fails here fails too late for taking anything back."""
    try:
        for folder in folders:
            flush_folder(folder)
    except OSError as error:
        raise InvalidInput(
            f"the files in {folder} are written, and the disk did not confirm it: {reason_of(error)}"
        ) from None


# --- what an interrupted write has left ---------------------------------------------------------------------------


def _settle(folder: str) -> None:
    """Complete a journal that was decided; take back one that was not."""
    journal = os.path.join(folder, JOURNAL)
    content = _read_journal(journal)
    if content is None:
        return
    decider = content["decided_by"]
    if decider is None:
        _complete(folder)
    elif os.path.lexists(decider):
        _complete(os.path.dirname(decider))
    else:
        for staged, _ in content["moves"]:
            unlink(os.path.join(folder, staged))
        unlink(journal)


def _complete(folder: str) -> None:
    """Steps (3) and (4) of the journal in this folder and of those that it decides; it goes last."""
    journal = os.path.join(folder, JOURNAL)
    content = _read_journal(journal)
    if content is None:
        return
    for other in content["others"]:
        theirs = _read_journal(os.path.join(other, JOURNAL))
        if theirs is not None and theirs["decided_by"] == journal:
            _finish(_Place(other, theirs["moves"], theirs["removals"]))
    _finish(_Place(folder, content["moves"], content["removals"]))


def _finish(place: _Place) -> None:
    """The renames are on the disk before the journal that lists them goes."""
    _apply(place)
    flush_folder(place.folder)
    unlink(os.path.join(place.folder, JOURNAL))
    flush_folder(place.folder)


def _read_journal(path: str) -> dict[str, Any] | None:
    """None where there is none. One that names files outside its folder is none of ours, and is not followed."""
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read())
        names = [name for _, name in content["moves"]] + content["removals"]
        ours = all(os.path.basename(name) == name and name not in ("", ".", "..") for name in names) and all(
            os.path.basename(staged) == staged and staged.startswith(_STAGED) for staged, _ in content["moves"]
        )
        if not ours or {type(content["others"]), type(content["decided_by"])} - {list, str, type(None)}:
            raise ValueError("it names files elsewhere")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{path} is no journal of an interrupted bayesfield command, or was changed: delete it, and look whether "
            "the files beside it belong together"
        ) from None
    result: dict[str, Any] = content
    return result


def _settle_before_writing(folder: str, clean: bool) -> None:
    """Complete what was begun; clean: the folder is locked, and what else is left over is of processes that died."""
    try:
        _settle(folder)
        if clean:
            with os.scandir(folder) as entries:
                left = [entry.path for entry in entries if entry.name.startswith(_STAGED)]
            for path in left:
                unlink(path)
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {reason_of(error)}") from None


def _discard(places: list[_Place], journals: bool = False) -> None:
    """Take back step (1), and step (2), first the journal that decides: what it lists must be there while it is."""
    paths = [os.path.join(place.folder, JOURNAL) for place in places] if journals else []
    paths += [os.path.join(place.folder, staged) for place in places for staged, _ in place.moves]
    try:
        for path in paths:
            unlink(path)
    except OSError:  # the disk is out of order, which its first error has said: the next write there cleans up
        return


def _into_device(output: Output) -> None:
    if output.content is None:
        raise InvalidInput(f"cannot delete {output.named}, which is of an earlier command: it is no file")
    try:
        handle = os.open(output.named, os.O_WRONLY)
        try:
            write_all(handle, output.content)
        finally:
            os.close(handle)
    except OSError as error:
        raise InvalidInput(f"cannot write {output.named}: {reason_of(error)}") from None


@contextmanager
def _all_locked(folders: list[str], outputs: list[Output]) -> Iterator[list[str]]:
    """All of these folders locked, always in the same order; yields those whose left-overs are surely of the dead."""
    handles: list[tuple[str, int]] = []
    try:
        for folder in folders:
            try:
                handles.append((folder, lock_folder(folder)))
            except OSError as error:
                named = next(o.named for o in outputs if os.path.dirname(os.path.realpath(o.named)) == folder)
                raise InvalidInput(f"cannot write {named}: {reason_of(error)}") from None
        yield [folder for folder, handle in handles if handle >= 0]
    finally:
        for _, handle in handles:
            if handle >= 0:
                os.close(handle)


def _refusal(named: str | Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"cannot write {named}: {reason_of(error)}; {_AS_BEFORE}")
