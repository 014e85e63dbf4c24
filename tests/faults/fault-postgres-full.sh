# SPDX-License-Identifier: GPL-2.0-only
# True: PostgreSQL has as many sessions as it may: it answers each new one with an error, and serves the others.
# Say: at :5432 were answered with a fatal error
# Needs: psql pgbench setpriv
. ./lib.sh || exit 1
host one
chmod 777 "$WORK"
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
user="setpriv --reuid postgres --regid postgres --clear-groups"
$user "$bin/initdb" -A trust -D "$WORK/data" >"$WORK/log" 2>&1
start one $user "$bin/postgres" -D "$WORK/data" -c listen_addresses=127.0.0.1 \
	-c unix_socket_directories= -c fsync=off -c max_connections=6 \
	-c superuser_reserved_connections=0
listening one 5432; sleep 0.5
echo 'select 1;' >"$WORK/one.sql"
start one pgbench -nh 127.0.0.1 -U postgres -f "$WORK/one.sql" -c 6 -R 60 -T 100 postgres
sleep 0.5
start one bash -c 'while sleep 0.2; do psql -qh 127.0.0.1 -U postgres -c "select 1" postgres; done'
sleep 1; measure one
