# SPDX-License-Identifier: GPL-2.0-only
# True: PostgreSQL computes for 200 ms and more for each query of two sessions.
# Say: postgres at :5432.*CPU
# Needs: pgbench psql setpriv
. ./lib.sh || exit 1
host one
chmod 777 "$WORK"
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
user="setpriv --reuid postgres --regid postgres --clear-groups"
$user "$bin/initdb" -A trust -D "$WORK/data" >"$WORK/log" 2>&1
start one $user "$bin/postgres" -D "$WORK/data" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off
listening one 5432; sleep 0.5
echo 'select sum(sqrt(n)) from generate_series(1, 2500000) n;' >"$WORK/sum.sql"
start one pgbench -nh 127.0.0.1 -U postgres -f "$WORK/sum.sql" -c 2 -j 2 -R 3 -T 100 postgres
sleep 1; SECONDS_OF_ONE=8; measure one
