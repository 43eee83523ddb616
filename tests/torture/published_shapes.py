"""
Credentials that name their issuer: shapes that issuers publish, as `gitleaks` and `trufflehog`
collect them.

A shape is text with draws in it: `{a20}` is twenty letters or digits. Samples are drawn on demand,
so that no scanner takes this file for a leak.
"""

import random
import re
import string
from collections.abc import Mapping

_ALPHABETS: Mapping[str, str] = {
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": string.digits,
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "c": string.ascii_letters,
    "a": string.ascii_letters + string.digits,
    "n": string.ascii_letters + string.digits + "_",
    "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "z": string.ascii_uppercase + "234567",
}
_DRAW = re.compile(r"\{([a-zA-Z])(\d+)\}|\{uuid\}")

SHAPES = """
adafruit aio_{a28}
airtable pat{a14}.{h64}
airtable-oauth {a20}.v1.{w40}.{h64}
alibaba LTAI{a20}
anthropic-admin sk-ant-admin01-{w93}AA
anthropic sk-ant-api03-{w93}AA
apideck sk_live_{a93}
apify apify_api_{a36}
artifactory AKCp{a69}
artifactory-reference cmVmdGtu{a56}
atlassian ATCTT3xFfG{w60}={a8}
authress sc_{l12}.{l5}.acc_{l20}.{b60}
aws AKIA{z16}
aws-session ASIA{z16}
aws-bedrock ABSK{b120}
aws-appsync da2-{l26}
azure-client {a3}8Q~{w32}
azure-registry {b42}+ACR{a6}
bannerbear bb_pr_{h30}
beamer b_{w44}
bitbucket-server BBDC-{b44}
bitbucket-app ATBB{a28}
braintrust sk-{a48}
buildkite bkua_{l40}
checkio pk_{l45}
circleci CCIPAT_{a22}_{h40}
clickhouse 4b1d{a38}
clickup pk_{d8}_{u32}
clojars CLOJARS_{l60}
close api_{a45}
cloudflare-token cfut_{a40}{h8}
cloudflare-account cfat_{a40}{h8}
cloudflare-global cfk_{a40}{h8}
cloudflare-origin v1.0-{h24}-{h146}
contentful CFPAT-{w43}
databricks dapi{h32}
deepseek sk-{l32}
defined dnkey-{w26}-{w52}
deno ddp_{a36}
deno-org ddw_{a36}
dfuse web_{l32}
digitalocean-oauth doo_v1_{h64}
digitalocean dop_v1_{h64}
digitalocean-refresh dor_v1_{h64}
discord-webhook https://discord.com/api/webhooks/{d18}/{a68}
docker-pat dckr_pat_{w27}
docker-org dckr_oat_{w32}
doppler dp.pt.{a43}
doppler-service dp.st.dev.{a43}
doppler-scim dp.scim.{a43}
dropbox-short sl.{w135}
duffel duffel_live_{w43}
duffel-test duffel_test_{w43}
dynatrace dt0c01.{u24}.{u64}
easypost EZAK{a54}
easypost-test EZTK{a54}
elevenlabs sk_{h48}
endorlabs endr+{a16}
facebook-page EAAM{a110}
facebook-app {d15}|{w27}
fastly-figma figp_{a48}
finage API_KEY{u32}
flexport shltm_{a40}
fleetbase flb_live_{a20}
flutterwave FLWSECK-{l32}-X
flutterwave-test FLWSECK_TEST-{h12}
fly-org fo1_{w43}
fly-macaroon fm2_{b120}
frameio fio-u-{w64}
fullstory na1.{b100}
gemini-exchange account-{a20}
gcp AIza{w35}
github-app ghs_{a36}
github-fine github_pat_{n82}
github-oauth gho_{a36}
github ghp_{a36}
github-refresh ghr_{a36}
gitlab-job glcbt-{a2}_{w20}
gitlab-deploy gldt-{w20}
gitlab-flags glffct-{w20}
gitlab-feed glft-{w20}
gitlab-mail glimt-{w25}
gitlab-agent glagent-{w50}
gitlab-oauth gloas-{h64}
gitlab glpat-{w20}
gitlab-routable glpat-{w40}.01.{l9}
gitlab-trigger glptt-{h40}
gitlab-registration GR1348941{w20}
gitlab-runner glrt-{w20}
gitlab-scim glsoat-{w20}
gitlab-session _gitlab_session={l32}
gocardless live_{w40}
google-oauth ya29.{w60}
grafana eyJrIjoi{a90}
grafana-cloud glc_{b80}
grafana-service glsa_{a32}_{h8}
groq gsk_{a52}
harness pat.{w22}.{a24}.{a20}
heroku HRKU-AA{w58}
hubspot pat-na1-{uuid}
huggingface hf_{c34}
huggingface-org api_org_{c34}
iexapis sk_{l32}
infracost ico-{a32}
intra42 s-s4t2ud-{h64}
jwt eyJ{a33}.eyJ{w80}.{w43}
klaviyo pk_{h34}
klaviyo-scoped pk_{a6}_{h34}
langfuse sk-lf-{uuid}
langsmith lsv2_pt_{h32}_{h10}
langsmith-service lsv2_sk_{h32}_{h10}
launchdarkly sdk-{uuid}
launchdarkly-api api-{uuid}
linear lin_api_{a40}
lob live_{h35}
lob-test test_{h35}
lob-public test_pub_{h31}
locationiq pk.{l32}
mailchimp {h32}-us12
mailgun key-{h32}
mailgun-public pubkey-{h32}
mailgun-signing {h32}-{h8}-{h8}
mapbox sk.{l60}.{l22}
mapbox-public pk.{l60}.{l22}
maxmind {a6}_{a29}_mmk
netlify nfp_{n36}
newrelic-browser NRBR-{h19}
newrelic-insert NRII-{w32}
newrelic-query NRIQ-{w32}
newrelic-license {h32}FFFFNRAL
newrelic-mobile AA{h40}-NRMA
newrelic-user NRAK-{u27}
ngc {l26}:{uuid}
nightfall NF-{a32}
notion ntn_{d11}{a35}
notion-old secret_{a43}
npm npm_{a36}
nvidia nvapi-{w64}
octopus API-{u26}
onepassword A3-{u6}-{u11}-{u5}-{u5}-{u5}
onepassword-service ops_eyJ{b250}
openai-project sk-proj-{w74}T3BlbkFJ{w74}
openai sk-{a20}T3BlbkFJ{a20}
openai-admin sk-admin-{w58}T3BlbkFJ{w58}
openai-service sk-svcacct-{w74}T3BlbkFJ{w74}
openrouter sk-or-v1-{h64}
openshift sha256~{w43}
pagarme ak_live_{a30}
paystack sk_live_{a40}
perplexity pplx-{a48}
pganalyze pgar_{a27}
pinecone pcsk_{a6}_{a63}
plaid access-production-{uuid}
planetscale pscale_tkn_{w43}
planetscale-oauth pscale_oauth_{w43}
planetscale-password pscale_pw_{w43}
portainer ptr_{b44}
posthog phx_{n43}
postman PMAK-{h24}-{h34}
prefect pnu_{a36}
pubnub pub-c-{uuid}
pubnub-subscribe sub-c-{uuid}
pulumi pul-{h40}
pypi pypi-AgEIcHlwaS5vcmcCJ{w150}
ramp ramp_sec_{a48}
ramp-id ramp_id_{a40}
razorpay rzp_live_{a14}
readme rdme_{l70}
recharge sk_1x1_{h64}
replicate r8_{w37}
robinhood rh-api-{uuid}
rootly rootly_{h64}
rubygems rubygems_{h48}
salad salad_cloud_{a6}_{a40}
salesforce 00{a13}!{n96}
salesforce-consumer 3MVG9{a85}
salesforce-refresh 5AEP861{a85}
scalingo tk-us-{w48}
sendgrid SG.{w22}.{w43}
sendinblue xkeysib-{h64}-{a16}
sentry-org sntrys_eyJpYXQiO{a80}_{a43}
sentry-user sntryu_{h64}
settlemint-app sm_aat_{a16}
settlemint sm_pat_{a16}
shippo shippo_live_{h40}
shopify shpat_{h32}
shopify-custom shpca_{h32}
shopify-private shppa_{h32}
shopify-shared shpss_{h32}
slack-app xapp-1-A{u10}-{d12}-{h64}
slack-bot xoxb-{d12}-{d12}-{a24}
slack-config xoxe.xoxp-1-{u163}
slack-refresh xoxe-1-{u146}
slack-user xoxp-{d11}-{d11}-{d11}-{h32}
slack-webhook https://hooks.slack.com/services/T{u8}/B{u8}/{a24}
smooch act_{l24}
sonar squ_{h40}
sonar-cloud sqco_{a59}
sourcegraph sgp_{h40}
sourcegraph-instance sgp_{h16}_{h40}
sourcegraph-cody slk_{h64}
spectral spu-{l32}
square sq0atp-{w22}
square-secret sq0csp-{w43}
square-access EAAA{w60}
stripe sk_live_{a24}
stripe-restricted rk_live_{a24}
stripe-intent pi_{a24}_secret_{a25}
stripe-publishable pk_live_{a24}
supabase sbp_{h40}
tableau {b22}==:{a32}
tailscale tskey-auth-{a12}CNTRL-{a32}
tailscale-api tskey-api-{a12}CNTRL-{a32}
telegram {d10}:A{w34}
terraform {a14}.atlasv1.{w67}
tickettailor sk_{d4}_{d6}_{h32}
trufflehog thog-key-{h16}
trufflehog-secret thog-secret-{h32}
twilio SK{h32}
twitter-bearer AAAAAAAAAAAAAAAAAAAAAA{a90}
typeform tfp_{n59}
ubidots BBFF-{a30}
vault hvs.{w95}
vault-batch hvb.{w140}
vault-old s.{a24}
voiceflow VF.DM.{h24}.{a16}
webex {a64}_{a4}_{uuid}
xai xai-{n80}
yandex t1.{a30}.{w86}
yandex-key AQVN{w36}
yandex-aws YCA{w37}
zapier https://hooks.zapier.com/hooks/catch/{d7}/{l8}
zoho 1000.{h32}.{h32}
"""


BARE = (
    "{}",
    "I pasted {} into the console by mistake.",
    "The one we used was {}, then rotated.",
    "see `{}` in the log",
    "2026-08-01 ERROR request failed: {} (retry 3)",
    "first\n{}\nlast",
    "https://api.internal/v1?x={}",
)
ASSIGNED = (
    "TOKEN={}",
    "export MY_API_KEY={}",
    'nested: {{"access_token": "{}"}}',
    "secret = '{}'",
    'client = Client(api_key="{}")',
    "APP_KEY={}\nDEBUG=1",
    "OTHER_KEY: {}",
)


def shapes() -> dict[str, str]:
    """Return each shape by the name of its issuer."""
    return dict(line.split(" ", 1) for line in SHAPES.split("\n") if line)


def drawn(shape: str, rng: random.Random) -> tuple[str, str]:
    """Return a credential of a shape, and the longest drawn part of it."""
    draws = [""]

    def draw(match: re.Match[str]) -> str:
        if match[1] is None:
            text = "-".join(
                "".join(rng.choices(_ALPHABETS["h"], k=size)) for size in (8, 4, 4, 4, 12)
            )
        else:
            text = "".join(rng.choices(_ALPHABETS[match[1]], k=int(match[2])))
        draws.append(text)
        return text

    return _DRAW.sub(draw, shape), max(draws, key=len)
