#!/usr/bin/env bash
# Prints the request rates of redis and of nginx without an agent and beside one at its default
# ceiling, in a guest of one processor whose clock counts instructions: they do not depend on the
# host. Run `make build` and `cargo build --package sockstamp-lab` first; `scripts/deps.sh bench`
# installs both programs.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/begin" <<'END'
ip link set lo up
begin_agent() {
	sockstamp agent --listen 127.0.0.1:9600 >/agent.log 2>&1 &
	# The start and the time before the ceiling acts are not what is counted.
	sleep 3
	load 40 >/load.log
}
END

cat "$folder/begin" - >"$folder/redis" <<'END'
load() { redis-benchmark -c 50 -n "$1"0000 -t set,get --csv; }
rates() { load 6 | sed -nE "s/^\"(SET|GET)\",\"([0-9.]+)\".*/$1 \1 \2/p"; }
redis-server --save "" >/redis.log &
sleep 2
load 2 >/load.log
rates without; rates without
begin_agent
rates with; rates with
END

cat "$folder/begin" - >"$folder/nginx" <<'END'
load() { wrk -t 1 -c 50 -d "$1" http://127.0.0.1:8080/; }
rates() { load 30 | sed -nE "s/^Requests\/sec: +([0-9.]+)/$1 requests \1/p"; }
mkdir -p /n/logs
cat >/n/conf <<'CONF'
worker_processes 1; daemon off; user root; pid /n/pid; error_log /n/log;
events { worker_connections 512; }
http {
	access_log off; client_body_temp_path /n; proxy_temp_path /n; fastcgi_temp_path /n;
	uwsgi_temp_path /n; scgi_temp_path /n;
	server { listen 127.0.0.1:8080; location / { return 200 "a short answer\n"; } }
}
CONF
nginx -p /n -c /n/conf >/nginx.log 2>&1 &
sleep 2
load 1 >/load.log
rates without; rates without
begin_agent
rates with; rates with
END

# Run the programs that are named, with their script.
counted() {
	local script=$1 program files=()
	shift
	for program in "$@"; do
		files+=(--file "$(command -v "$program"):/bin/$program")
	done
	echo "$script:"
	target/debug/sockstamp-lab run --kernel 7.2 --count-instructions --time-limit 1800 \
		"${files[@]}" --file target/release/sockstamp:/bin/sockstamp \
		--file "$folder/$script:/bin/load.sh" -- sh /bin/load.sh
}

counted redis redis-server redis-benchmark
counted nginx nginx wrk
