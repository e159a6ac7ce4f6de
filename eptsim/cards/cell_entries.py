"""The card entries of one memory cell."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, InstanceOf

from eptsim.base.table import Table
from eptsim.cards.spec import Section, Spec


class Spread(Section):
    """Cell-to-cell spread of the range of conductances, drawn once per chip."""

    g_min: Annotated[
        float,
        Spec(
            "Standard deviation over the cells of their own lowest conductance, as a fraction of "
            "g_max_s."
        ),
    ] = 0.0
    g_max: Annotated[
        float,
        Spec(
            "Standard deviation over the cells of their own highest conductance, as a fraction of "
            "g_max_s."
        ),
    ] = 0.0


class Programming(Section):
    """How far a programmed conductance lies from its target."""

    sigma: Annotated[
        float,
        Spec(
            "Standard deviation of the programmed conductance of each cell, as a fraction of "
            "g_max_s; drawn once per cell and chip."
        ),
    ] = 0.0
    sigma_linear: Annotated[
        float,
        Spec(
            "Part of that standard deviation which grows with the target G: times G / g_max_s.",
            low=-10.0,
            high=10.0,
        ),
    ] = 0.0
    sigma_quadratic: Annotated[
        float,
        Spec(
            "Part of that standard deviation which grows with the target squared: times "
            "(G / g_max_s)^2.",
            low=-10.0,
            high=10.0,
        ),
    ] = 0.0
    table: Annotated[
        InstanceOf[Table] | None,
        Spec(
            "Standard deviation of the programmed conductance over the target, instead of the "
            "three numbers.",
            dimension="conductance",
            x_dimension="conductance",
            columns=("conductance", "sigma"),
        ),
    ] = None
    verify_tolerance: Annotated[
        float | None,
        Spec(
            "A cell is programmed again until it lies within this fraction of g_max_s of its "
            "target; ideal: programmed once, not verified.",
            above_low=True,
        ),
    ] = None
    verify_rounds: Annotated[
        int,
        Spec(
            "Largest number of times that a cell is programmed; acts only with verify_tolerance.",
            low=1,
            high=1000,
            has_ideal=False,
        ),
    ] = 10


class ReadNoise(Section):
    """Cycle-to-cycle noise of a cell, drawn anew at every read."""

    law: Annotated[
        Literal["none", "constant", "proportional", "sqrt", "table"],
        Spec(
            "How the noise of a cell depends on its conductance G: 'constant' is the same for "
            "every cell, 'proportional' grows with G, 'sqrt' with its square root, 'table' is "
            "tabulated."
        ),
    ] = "none"
    sigma: Annotated[
        float,
        Spec(
            "Standard deviation at each read: with law 'constant' as a fraction of g_max_s, with "
            "'proportional' as a fraction of G, with 'sqrt' as a fraction of sqrt(G g_max_s)."
        ),
    ] = 0.0
    table: Annotated[
        InstanceOf[Table] | None,
        Spec(
            "Standard deviation at each read over the conductance; acts with law 'table'.",
            dimension="conductance",
            x_dimension="conductance",
            columns=("conductance", "sigma"),
        ),
    ] = None

    @property
    def acts(self) -> bool:
        """Whether there is any noise."""
        return self.law == "table" or (self.law != "none" and self.sigma > 0)


class Flicker(Section):
    """1/f noise: slow fluctuations, which two reads share the more the closer they are in time."""

    sigma: Annotated[
        float,
        Spec(
            "Size of the noise: two reads of a cell a time t apart differ by sigma "
            "sqrt(2 ln(t / fastest_s)), as a fraction of G (standard deviation)."
        ),
    ] = 0.0
    fastest_s: Annotated[
        float,
        Spec(
            "Period of the fastest fluctuation; reads much closer in time than this share all of "
            "it. Acts only with sigma.",
            dimension="time",
            high=1e12,
            above_low=True,
            has_ideal=False,
        ),
    ] = 1e-6
    slowest_s: Annotated[
        float,
        Spec(
            "Period of the slowest fluctuation; acts only with sigma.",
            dimension="time",
            high=1e12,
            above_low=True,
            has_ideal=False,
        ),
    ] = 1e3


class Drift(Section):
    """Power law of a conductance after programming: G(t) = G(t0) (t / t0)^-nu."""

    nu: Annotated[float, Spec("Mean drift exponent over the cells.")] = 0.0
    nu_sigma: Annotated[float, Spec("Standard deviation of the drift exponent over the cells.")] = (
        0.0
    )
    time_s: Annotated[
        float,
        Spec(
            "Time since programming at which the chip is read; acts only with nu, nu_sigma or "
            "cell.retention.tau_s.",
            dimension="time",
            high=1e12,
            above_low=True,
            has_ideal=False,
        ),
    ] = 3600.0
    t0_s: Annotated[
        float,
        Spec(
            "Time after programming at which the stored conductance is exact, before drift; "
            "acts only with nu or nu_sigma.",
            dimension="time",
            high=1e12,
            above_low=True,
            has_ideal=False,
        ),
    ] = 20.0
    compensation: Annotated[
        Literal["none", "reference_read"],
        Spec(
            "What the digital side does about it: 'reference_read' scales each array by the loss "
            "of its summed conductance since programming."
        ),
    ] = "none"


class Retention(Section):
    """Loss of a stored conductance with time: G relaxes to a level of its window."""

    tau_s: Annotated[
        float | None,
        Spec(
            "Time constant of G(t) = G_end + (G - G_end) exp(-(t / tau_s)^stretch), with t = "
            "cell.drift.time_s; ideal: kept for ever.",
            dimension="time",
            high=1e15,
            above_low=True,
        ),
    ] = None
    stretch: Annotated[
        float,
        Spec("Exponent of that law; acts only with tau_s.", above_low=True, has_ideal=False),
    ] = 1.0
    level: Annotated[
        float,
        Spec(
            "Where G_end lies between g_min_s (0) and g_max_s (1); acts only with tau_s.",
            has_ideal=False,
        ),
    ] = 0.0


class Stuck(Section):
    """Cells that cannot be programmed, drawn once per chip."""

    low: Annotated[float, Spec("Fraction of the cells stuck at g_min_s.")] = 0.0
    high: Annotated[float, Spec("Fraction of the cells stuck at g_max_s.")] = 0.0
    random: Annotated[
        float, Spec("Fraction of the cells stuck at random between g_min_s and g_max_s.")
    ] = 0.0


class CurrentVoltage(Section):
    """Current of a cell over its voltage: I = G f(V), f odd."""

    law: Annotated[
        Literal["linear", "sinh", "cubic", "table"],
        Spec(
            "Form of f: 'linear' V, 'sinh' v0_v sinh(V / v0_v), 'cubic' V (1 + (V / v0_v)^2), "
            "'table' tabulated. Acts with array.coding 'amplitude'; pulse-width coding drives "
            "every cell at one voltage and is exact."
        ),
    ] = "linear"
    v0_v: Annotated[
        float | None,
        Spec(
            "Voltage at which the law bends, for 'sinh' and 'cubic'.",
            dimension="voltage",
            low=1e-6,
            high=1e6,
        ),
    ] = None
    table: Annotated[
        InstanceOf[Table] | None,
        Spec(
            "f over the voltage, from f(0) = 0 at 0 V; for law 'table'.",
            dimension="voltage",
            high=1e6,
            x_dimension="voltage",
            columns=("voltage", "effective_voltage"),
        ),
    ] = None


class Cell(Section):
    """One memory cell."""

    g_min_s: Annotated[float, Spec("Lowest programmable conductance.", dimension="conductance")] = (
        0.0
    )
    g_max_s: Annotated[
        float,
        Spec(
            "Highest programmable conductance.",
            dimension="conductance",
            above_low=True,
            has_ideal=False,
        ),
    ] = 1e-5
    levels: Annotated[
        int | None,
        Spec(
            "Number of equally spaced conductances from g_min_s to g_max_s that a cell can be "
            "programmed to; ideal: any conductance.",
            low=2,
            high=2**24,
        ),
    ] = None
    spread: Spread = Field(default_factory=Spread)
    programming: Programming = Field(default_factory=Programming)
    read_noise: ReadNoise = Field(default_factory=ReadNoise)
    flicker: Flicker = Field(default_factory=Flicker)
    drift: Drift = Field(default_factory=Drift)
    retention: Retention = Field(default_factory=Retention)
    stuck: Stuck = Field(default_factory=Stuck)
    iv: CurrentVoltage = Field(default_factory=CurrentVoltage)
