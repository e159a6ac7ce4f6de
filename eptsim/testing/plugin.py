"""The pytest plugin: ``pytest --crossbar package.module:factory`` runs the suite on a factory.

Installed with eptsim (entry point ``pytest11``); it does nothing without the option. Each check is
a test ``conformance::topic/name`` that ``-k`` selects; a refusal of the factory shows as skipped.
Test files are collected as well only where they are named on the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from eptsim.testing.bench import Bench, Factory
    from eptsim.testing.check import Check

DTYPES = ("float32", "float64")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--crossbar`` and what goes with it."""
    group = parser.getgroup("eptsim", "eptsim: conformance of crossbars")
    group.addoption(
        "--crossbar", metavar="MODULE:FACTORY",
        help="run eptsim's conformance suite on factory(weight, card, seed)",
    )
    group.addoption(
        "--crossbar-dtype", choices=DTYPES, default=DTYPES[0],
        help="dtype of weights and vectors (default: float32)",
    )
    group.addoption(
        "--crossbar-device", default="cpu", help="device of weights and vectors (default: cpu)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker of slow checks known."""
    if config.getoption("crossbar"):
        config.addinivalue_line("markers", "slow: takes more than a few seconds")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave test files out that nobody named."""
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    return True if config.getoption("crossbar") and not named else None


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the checks to what was collected."""
    name = config.getoption("crossbar")
    if name:
        from eptsim.base.errors import InputError
        from eptsim.testing.loading import load_factory

        try:
            factory = load_factory(name, config.invocation_params.dir)
        except InputError as error:
            raise pytest.UsageError(f"--crossbar: {error}") from error
        suite = Conformance.from_parent(session, name="conformance", nodeid="conformance")
        items.extend(suite.of(factory))


class Conformance(pytest.Collector):
    """Stands for the suite in the tree of collected tests."""

    def collect(self) -> Iterator[pytest.Item]:
        """Nothing: the factory decides, see :meth:`of`."""
        return iter(())

    def of(self, factory: Factory) -> Iterator[CheckItem]:
        """A test for each check of ``factory``."""
        import torch

        from eptsim.testing.bench import Bench
        from eptsim.testing.suite import all_checks

        dtype = getattr(torch, self.config.getoption("crossbar_dtype"))
        bench = Bench(factory, dtype, self.config.getoption("crossbar_device"))
        for check in all_checks():
            item = CheckItem.from_parent(self, name=check.id)
            item.check, item.bench = check, bench
            if check.slow:
                item.add_marker(pytest.mark.slow)
            yield item


class CheckItem(pytest.Item):
    """One check as a test."""

    check: Check
    bench: Bench

    def runtest(self) -> None:
        """Run the check; skipped where the factory refuses, failed where a limit is broken."""
        from eptsim.testing.suite import run_check

        row = run_check(self.check, self.bench)
        if row.status == "refused":
            pytest.skip(row.detail)
        if not row.ok:
            raise NonconformityError(f"{self.check.claim}\n{row.detail}")

    def repr_failure(  # type: ignore[override]  # as pytest's manual has it
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> str:
        """The claim and what was measured, without pytest's own frames."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where the check is, and its name."""
        return Path(__file__).parent, None, f"conformance: {self.check.id}"


class NonconformityError(AssertionError):
    """A check that failed, or that raised what it should not."""
