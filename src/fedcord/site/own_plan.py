"""The plan of a run as a site makes it: of the server's terms, and of what its own file says."""

from __future__ import annotations

from fedcord.core.device import chosen_device
from fedcord.data.facts import DataFacts
from fedcord.experiment.build import Plan, make_plan
from fedcord.experiment.config import RunConfig
from fedcord.site.site_file import SiteFile


def plan_at(site: SiteFile, config: RunConfig, facts: DataFacts) -> Plan:
    """The plan, on the site's own device, or a ConfigError that says why it cannot be here."""
    device = None if site.device is None else chosen_device(site.device)
    return make_plan(config, facts, site.data_dirs or None, device)
