"""The plan of a run as a site makes it: of the server's terms, and of what its own file says."""

from __future__ import annotations

from fedcord.core.device import chosen_device
from fedcord.core.errors import ConfigError
from fedcord.data.facts import DataFacts
from fedcord.experiment.build import Plan, make_plan
from fedcord.experiment.config import RunConfig
from fedcord.experiment.masking import maskable_rounds
from fedcord.site.site_file import REQUIRED, SiteFile


def plan_at(site: SiteFile, config: RunConfig, facts: DataFacts) -> Plan:
    """The plan, on the site's own device, or a ConfigError that says why it cannot be here."""
    device = None if site.device is None else chosen_device(site.device)
    plan = make_plan(config, facts, site.data_dirs or None, device)
    is_open = config.secure is None and any(maskable_rounds(plan.algorithm, plan.task, config))
    if site.insists_on_masks and is_open:
        raise ConfigError(
            f"{site.who} sends no update in the open that can be masked (secure = '{REQUIRED}' in "
            "its file), and the study does not mask; add secure = 0.6 to its settings, or --secure "
            "0.6."
        )
    return plan
