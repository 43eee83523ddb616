"""The purpose of a command is recognized behind any wrapper, and by its output."""

import pytest

from store.agents.efforts import command_effort, command_outcome, only_looks


@pytest.mark.parametrize(
    ("line", "effort"),
    [
        ("docker compose exec -T web pytest -q", "test"),
        ('docker-compose run --rm api bash -lc "cd /app && bundle exec rspec"', "test"),
        ("kubectl exec -it pod -- go test ./...", "test"),
        ("ssh ci 'cd app && ./run_tests.sh'", "test"),
        ("nix develop -c cargo test", "test"),
        ("make test-unit", "test"),
        ("just e2e", "test"),
        ("mise run specs", "test"),
        ("yarn workspace api test", "test"),
        ("php artisan test", "test"),
        ("vendor/bin/phpunit", "test"),
        ("gotestsum ./...", "test"),
        ("npx turbo run build", "build"),
        ("scripts/build-image", "build"),
        ("hatch run lint:all", "lint"),
        ("./bin/deploy.sh staging", "deploy"),
        ("just ship", "deploy"),
        ("bundle install", "install"),
        ("mix deps.get", "install"),
        ("nvm use latest", None),
        ("cat tests/test_cart.py", None),
        ("git diff build/", None),
        ("Test-Path .env", None),  # PowerShell's
        ('cd app; Select-String -Pattern "DEPLOYMENT|Dockerfile" notes.md', None),
        ("New-Item -ItemType Directory tests", None),
        ("$built = Get-ChildItem dist", None),
        ("$PYTHON -m pytest -q", "test"),  # a program in a variable
        ("findstr /s test *.py", None),
        (r"& .\Run-Tests.ps1", "test"),
        ("Invoke-Pester", "test"),
        ("npx tsc --noEmit -p tsconfig.json", "lint"),
        ("cd web && tsc --noEmit", "lint"),
        ("npx tsc -p tsconfig.json", "build"),
        ("python -m py_compile app.py", None),
        ("python3 -m py_compile app.py && echo ok", None),
        ("mix ecto.gen.migration fix_product_unit_tracking", None),  # its name, no unit test
        ("dotnet new xunit -n Shop.Tests", None),
        ("dotnet clean Shop.Tests", None),  # its project is one of tests
        ("dotnet sln add Shop.Tests", None),
        ("dotnet build Shop.Tests -c Release", "build"),
        ("dotnet restore Shop.Tests", "install"),
        ("dotnet test Shop.Api.sln", "test"),
        ("npx create-next-app test-app", None),
        ("python scripts/create_test_data.py", None),
        ("gh release create v1.2", None),
        ("python check_db_data.py", None),
        ("scripts/check-prerequisites.sh --json", None),
        ("scripts/check.sh", "lint"),
        ("npm run type-check", "lint"),
        ("npx vercel --prod --yes", "deploy"),
        ("vercel deploy --prod", "deploy"),
        ("npx vercel --prod --scope our-team", "deploy"),
        ("vercel env ls", None),
        ("npx prisma db push", None),  # of a schema, into a database
        ("npm run build 2>&1 | Select-Object -Last 20", "build"),
    ],
)
def test_the_effort_of_a_wrapped_command_is_recognised(line: str, effort: str | None):
    assert command_effort(line, "") == effort


@pytest.mark.parametrize(
    ("wrote", "effort"),
    [
        ("== 12 passed in 3.1s ==", "test"),
        ("test result: FAILED. 3 passed; 1 failed", "test"),
        ("# pass 12", "test"),
        ("BUILD SUCCESSFUL in 3s", "build"),
        ("webpack compiled successfully", "build"),
        ("All checks passed!", "lint"),
        ("Deployed to production (v41)", "deploy"),
        ("added 120 packages in 3s", "install"),
        ("hello", None),
    ],
)
def test_a_script_of_any_name_is_known_by_what_it_wrote(wrote: str, effort: str | None):
    assert command_effort("./ci.sh", wrote) == effort
    assert command_effort("cat ci.log", wrote) is None


def test_commands_of_powershell_that_only_look_are_told_from_those_that_change_something():
    assert only_looks("Test-Path .env; Get-Content a.log | Select-Object -Last 20")
    assert only_looks(r"cd app; dir src | findstr /i test")
    assert not only_looks("Remove-Item dist -Recurse")
    assert not only_looks("Get-Content a.log | Out-File b.log")
    assert not only_looks(r".\Get-Data.ps1")


def test_a_check_that_ran_tests_is_a_test_run():
    assert command_effort("make check", "12 passed") == "test"
    assert command_effort("make check", "All checks passed!") == "lint"
    assert command_outcome("make check", None, "11 passed, 1 failed") is False
