"""
The operator's pages: the memory in a browser, to look at, correct and trust. To add a page:

1. `<name>_page.py` with a function that takes the `Site` and returns a `Blueprint("<name>",
   __name__)` whose routes begin with `/t/<tenant>/<name>`; the first is the view `index`, which the
   navigation (`PLACES` in `serve.dashboard.shell`) names. A view begins with
   `opened = site.tenant(tenant)` and ends with `render_template("<name>.html", ...)`. Raise
   NotFound or InvalidInput where something is missing or wrong: the shell makes the error page.
2. `templates/<name>.html`, which extends `base.html` and imports `parts.html` as `p`; it fills the
   blocks `title` and `main`. No inline style or script: the policy forbids both. Styles go to
   `static/<name>.css`, scripts to `static/<name>.js`; name them in the block `head` with
   `{{ static("<name>.css") }}`.
3. The function in `BLUEPRINTS` of `serve.dashboard.shell`.

A form is a POST with `{{ csrf() }}` in it. Its view does one thing through the function that the
command line and the API use, and returns `site.redirect(back(tenant_url(...)), "done: ...")`. A GET
writes nothing. Text of memories goes through `|clean`, or `|line` where one line is wanted.
"""
