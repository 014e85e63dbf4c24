# SPDX-License-Identifier: GPL-2.0-only
# True: A session of PostgreSQL holds a row for 300 ms at a time; updates of other sessions wait for it.
# Say: 5432
# Needs: pgbench psql setpriv
. ./lib.sh || exit 1
host one
chmod 777 "$WORK"
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
user="setpriv --reuid postgres --regid postgres --clear-groups"
$user "$bin/initdb" -A trust -D "$WORK/data" >"$WORK/log" 2>&1
start one $user "$bin/postgres" -D "$WORK/data" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off
listening one 5432; sleep 0.5
on one psql -qh 127.0.0.1 -U postgres \
	-c 'create table stock as select 1 as id, 0 as n' postgres >>"$WORK/log" 2>&1
cat >"$WORK/hold.sql" <<'SQL'
begin; select * from stock for update; select pg_sleep(0.3); commit; select pg_sleep(0.1);
SQL
echo 'update stock set n = n + 1;' >"$WORK/update.sql"
start one pgbench -nh 127.0.0.1 -U postgres -f "$WORK/hold.sql" -T 100 postgres
start one pgbench -nh 127.0.0.1 -U postgres -f "$WORK/update.sql" -c 3 -j 3 -R 10 -T 100 postgres
sleep 1; measure one
