"""
The pages. To add one:

1. `pages/<name>.py` with `blueprint(site)`, which returns `Blueprint("<name>", __name__)` whose
   routes begin with `/t/<tenant>/<name>`; the first is the view `index`, which the navigation
   (`serve.dashboard.navigation`) names. A view begins with `opened = site.tenant(tenant)` and ends
   with `render_template("<name>.html", ...)`. Raise NotFound or InvalidInput where something is
   missing or wrong: the shell makes the page that says so.
2. `templates/<name>.html`, which extends `base.html` and imports `parts.html` as `p`; it fills the
   blocks `title` and `main`. No inline style or script: the policy forbids both. Styles go to
   `static/<name>.css`, scripts to `static/<name>.js`; name them in the block `head` with
   `{{ static("<name>.css") }}`.
3. The module in `BLUEPRINTS` below.

A form is a POST with `{{ csrf() }}` in it. Its view does one thing through the function the command
line and the API use, and returns `site.done(back(tenant_url(...)), "what was done")`. A GET writes
nothing. What memories say goes through `|clean`, or `|line` where one line is wanted.
"""

from collections.abc import Callable

from flask import Blueprint

from serve.dashboard.pages import (
    access,
    errors,
    goals,
    graph,
    jobs,
    lab,
    lessons,
    memories,
    overview,
    proposals,
)
from serve.dashboard.sites import Site

BLUEPRINTS: tuple[Callable[[Site], Blueprint], ...] = (
    overview.blueprint,
    memories.blueprint,
    lab.blueprint,
    graph.blueprint,
    lessons.blueprint,
    goals.blueprint,
    proposals.blueprint,
    jobs.blueprint,
    access.blueprint,
    errors.blueprint,
)
