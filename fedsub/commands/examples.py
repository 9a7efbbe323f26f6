"""Three lines to copy, for the help of each command."""

from collections.abc import Mapping, Sequence

import click

#: By command: lines as they are typed. Names such as `people` are the reader's own.
EXAMPLES: Mapping[str, Sequence[str]] = {
    "fedsub run": (
        "fedsub run",
        "fedsub run --data people --method fedsub-ridge --rounds 3",
        "fedsub run --resume runs/people-ditto-20260101-120000 --rounds 60",
    ),
    "fedsub compare": (
        "fedsub compare studies/quick.toml",
        "fedsub compare studies/base.toml --data federations --only data=uci-har --seeds 0,1",
        "fedsub compare studies/base.toml --data federations --row ditto --set lr=0.1",
    ),
    "fedsub report": (
        "fedsub report runs/people-ditto-20260101-120000",
        "fedsub report runs/people-ditto-20260101-120000 --watch",
        "fedsub report runs/quick --mlflow sqlite:///mlflow.db",
    ),
    "fedsub predictions": (
        "fedsub predictions runs/people-ditto-20260101-120000",
        "fedsub predictions runs/people-ditto-20260101-120000 --metric auroc --metric my.py:cost",
        "fedsub predictions runs/people-ditto-20260101-120000 --out tables --parquet",
    ),
    "fedsub status": (
        "fedsub status runs/people-ditto-20260101-120000",
        "fedsub status /var/lib/fedsub/run --serve 9464",
        "fedsub status --superlink 127.0.0.1:8000 --ca /etc/fedsub/ca.crt",
    ),
    "fedsub serve new": (
        "fedsub serve new service --when 'every night at 2 Europe/Berlin' --ca ca.crt",
        "fedsub serve new service run.toml --when 'every 6 hours' --each 5 --set min-clients=20",
        "fedsub serve new service --when 'when 20 people have new samples' --superlink fl:8000",
    ),
    "fedsub serve start": (
        "fedsub serve start /var/lib/fedsub/service",
        "fedsub serve start service --listen 9465",
        "fedsub serve start service --listen 0.0.0.0:9465 --certificate cert.pem --key cert.key",
    ),
    "fedsub serve pause": (
        "fedsub serve pause service",
        "fedsub serve pause service --now",
        "fedsub serve pause https://fl.example.org:9465 --ca ca.crt",
    ),
    "fedsub serve resume": (
        "fedsub serve resume service",
        "fedsub serve resume /var/lib/fedsub/service",
        "fedsub serve resume https://fl.example.org:9465 --ca ca.crt",
    ),
    "fedsub serve set": (
        "fedsub serve set service when='every 6 hours'",
        "fedsub serve set service each=2 min-clients=30 quorum=0.6",
        "fedsub serve set https://fl.example.org:9465 round-timeout=1200 --ca ca.crt",
    ),
    "fedsub serve status": (
        "fedsub serve status service",
        "fedsub serve status /var/lib/fedsub/service",
        "fedsub serve status https://fl.example.org:9465 --ca ca.crt",
    ),
    "fedsub serve token": (
        "fedsub serve token service",
        "fedsub serve token service anna --role operator --days 90",
        "fedsub serve token service anna --revoke",
    ),
    "fedsub serve audit": (
        "fedsub serve audit service",
        "fedsub serve audit /var/lib/fedsub/service",
        "fedsub serve audit services/hearts",
    ),
    "fedsub methods": (
        "fedsub methods",
        "fedsub methods fedsub-ridge",
        "fedsub methods --markdown > methods.md",
    ),
    "fedsub models": (
        "fedsub models",
        "fedsub models resnet18 --input 3,32,32 --classes 10",
        "fedsub models my_model.py:Recurrent --input 9,128",
    ),
    "fedsub new method": (
        "fedsub new method mine",
        "fedsub new method mine --out packages/mine",
        "fedsub new method pulled-head",
    ),
    "fedsub data list": (
        "fedsub data list",
        "fedsub data show wisdm",
        "fedsub data prepare watch --out people",
    ),
    "fedsub data show": (
        "fedsub data show wisdm",
        "fedsub data show wesad",
        "fedsub data show dreamt",
    ),
    "fedsub data fetch": (
        "fedsub data fetch wisdm",
        "fedsub data fetch wisdm --accept-terms",
        "fedsub data fetch wesad --accept-terms --to archives/wesad",
    ),
    "fedsub data prepare": (
        "fedsub data prepare watch --out people",
        "fedsub data prepare wisdm --source downloads/wisdm --out wisdm --set features=stats",
        "fedsub data prepare wesad --source WESAD.zip --out wesad --workers 2",
    ),
    "fedsub data inspect": (
        "fedsub data inspect people",
        "fedsub data inspect people --out inspections/first",
        "fedsub data inspect people --seed 1 --out inspections/second",
    ),
    "fedsub data partition": (
        "fedsub data partition pooled --kind dirichlet --out clients --set alpha=0.3",
        "fedsub data partition pooled --kind pathological --out clients",
        "fedsub data partition people --kind natural --out same",
    ),
    "fedsub data import": (
        "fedsub data import walks.csv --out walks",
        "fedsub data import 'people/*.csv' --from-name '(\\d+)' --out walks",
        "fedsub data import walks.parquet --label activity --window 2.56s --rate 50 --out walks",
    ),
    "fedsub data parts": (
        "fedsub data parts people --file splits.csv --out people-divided",
        "fedsub data parts walks --file parts.csv --out walks-by-day",
        "fedsub data parts ward --file runs/seed-0/splits.csv --out ward-as-before",
    ),
    "fedsub data evolve": (
        "fedsub data evolve people --out people-dynamic",
        "fedsub data evolve people --out people-dynamic --set clients=0.6 --set every=20",
        "fedsub data evolve people --out people-dynamic --seed 1",
    ),
    "fedsub data statistics": (
        "fedsub data statistics uci-har --out uci-har-stats",
        "fedsub data statistics people --out people-stats",
        "fedsub data statistics wisdm-raw --out wisdm-stats",
    ),
    "fedsub deploy local": (
        "fedsub deploy local --set rounds=2",
        "fedsub deploy local --clients 5 --data people --set method=fedavg --set rounds=3",
        "fedsub deploy local run.toml --data people --out rehearsals",
    ),
    "fedsub deploy simulate": (
        "fedsub deploy simulate --people 1000 --days 30",
        "fedsub deploy simulate --people 200 --days 7 --every 24 --faults 0.02 --data people",
        "fedsub deploy simulate --every 0 --set clients-per-round=50 --set ask=1.3 "
        "--set late-hours=6 --set pause-hours=12",
    ),
    "fedsub deploy certificates": (
        "fedsub deploy certificates --dir keys --name fl.example.org --name 127.0.0.1 --nodes 10",
        "fedsub deploy certificates --dir keys --nodes 5",
        "fedsub deploy certificates --dir keys --renew",
    ),
    "fedsub deploy key": (
        "fedsub deploy key anna --dir keys",
        "fedsub deploy key anna ben --dir keys",
        "fedsub deploy key phone-17 --dir keys",
    ),
    "fedsub deploy roster": (
        "fedsub deploy roster anna=keys/nodes/node-1.pub ben=keys/nodes/node-2.pub --dir keys",
        "fedsub deploy roster phone-17=phone-17.pub --dir keys",
        "fedsub deploy roster --dir admin --joined joined.csv --codes sheet/codes.csv",
    ),
    "fedsub deploy invite": (
        "fedsub deploy invite --dir invitations --out sheet --url https://fl.example.org:9092",
        "fedsub deploy invite --dir in --out out --url https://fl.example.org:443 --count 200",
        "fedsub deploy invite --dir in --out out --url https://10.0.0.1:9092 --person anna",
    ),
    "fedsub deploy people": (
        "fedsub deploy people --dir invitations --superlink 127.0.0.1:8000 --ca ca.crt",
        "fedsub deploy people --dir in --superlink 127.0.0.1:8000 --ca ca.crt --revoke anna",
        "fedsub deploy people --dir invitations --withdraw 20260101-120000/7",
    ),
    "fedsub device policy": (
        "fedsub device policy /var/lib/fedsub/state --charging --wifi",
        "fedsub device policy /var/lib/fedsub/state --hours 22-7 --battery 0.5",
        "fedsub device policy /var/lib/fedsub/state",
    ),
    "fedsub device join": (
        "fedsub device join https://fl.example.org:9092 7XK2-... --name anna --dir /etc/fedsub",
        "fedsub device join https://10.0.0.1:9092 CODE --name ben --dir keys --ca ca.crt",
        "fedsub device join https://10.0.0.1:9092 CODE --name ben --dir keys --fingerprint 3FA2...",
    ),
    "fedsub deploy seal": (
        "fedsub deploy seal /var/lib/fedsub/state --passphrase /etc/fedsub/passphrase",
        "fedsub deploy seal /var/lib/fedsub/run",
        "fedsub deploy seal state --plain --passphrase passphrase",
    ),
    "fedsub device leave": (
        "fedsub device leave /var/lib/fedsub/state anna",
        "fedsub device leave state ben --yes",
        "fedsub device leave runs/deploy-20260101-120000/state 01",
    ),
    "fedsub deploy verify": (
        "fedsub deploy verify transcript.jsonl --state /var/lib/fedsub/state",
        "fedsub deploy verify transcript.jsonl --state state/anna --owner roster-owner.pub",
        "fedsub deploy verify run/fedavg/transcript.jsonl --key run/fedavg/transcript.key",
    ),
    "fedsub deploy app": (
        "fedsub deploy app --out app",
        "fedsub deploy app run.toml --out app --set rounds=100",
        "fedsub deploy app --out app --set method=ditto --set folder=/var/lib/fedsub/run",
    ),
    "fedsub deploy defaults": (
        "fedsub deploy defaults pyproject.toml",
        "fedsub deploy defaults app/pyproject.toml",
        "fedsub deploy defaults /srv/fedsub/app/pyproject.toml",
    ),
    "fedsub forget": (
        "fedsub forget runs/people-fedsub-20260101-120000 anna",
        "fedsub forget runs/people-fedsub-20260101-120000 anna --yes",
        "fedsub forget /var/lib/fedsub/run phone-17",
    ),
    "fedsub predict": (
        "fedsub predict --client anna --input day.csv --unknown-below 0.6 --page day.html",
        "fedsub predict --client anna --input new.npz --output classes.csv",
        "fedsub predict --state /var/lib/fedsub/state --input new.npz",
    ),
    "fedsub export": (
        "fedsub export --client anna --format onnx --output anna.onnx",
        "fedsub export --newcomers --run runs/people-fedsub-ridge-20260101-120000 --output new.st",
        "fedsub export --state state/anna --format safetensors --output anna.safetensors",
    ),
    "fedsub adapt": (
        "fedsub adapt runs/people-fedsub-ridge-20260101-120000 --data newcomers",
        "fedsub adapt runs/people-fedsub-ridge-20260101-120000 --data new --samples-per-class 5",
        "fedsub adapt newcomers.safetensors --data new --person anna --out models",
    ),
    "fedsub doctor": ("fedsub doctor", "fedsub doctor --json", "fedsub doctor && fedsub run"),
}


def add_examples(command: click.Command, path: str) -> None:
    """Write its examples under the help of a command, and of all below it."""
    if path in EXAMPLES:
        # Click keeps the lines of a paragraph that begins with a backspace as they are.
        command.epilog = "\b\n" + "\n".join(["Examples:", *(f"  {e}" for e in EXAMPLES[path])])
    for name, inner in getattr(command, "commands", {}).items():
        add_examples(inner, f"{path} {name}")
